"""The documents become a static site in which every link leads somewhere."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parents[2]


class Links(HTMLParser):
    """The links of a page, what it loads, and the places in it that can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.places |= {text for name in ("id", "name") if (text := found.get(name))}
        if tag == "a" and (target := found.get("href")):
            self.links.append(target)
        if target := found.get("src") or (found.get("href") if tag == "link" else None):
            self.loaded.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    command = [sys.executable, "-m", "zensical", "build", "-f", "mkdocs.yml", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)[-3000:]
    return folder / "site"


def test_every_page_of_the_documents_is_in_the_site(site):
    pages = [path.stem for path in (ROOT / "docs").glob("*.md")]
    assert [name for name in pages if not (site / f"{name}.html").is_file()] == []


def test_every_link_leads_somewhere_and_no_page_loads_from_elsewhere(site):
    pages = {path: Links(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert pages
    for page, found in pages.items():
        assert [each for each in found.loaded if each.startswith(("http", "//"))] == []
        for link in found.links:
            target, place = urldefrag(unquote(link))
            if target.startswith(("http:", "https:", "mailto:")):
                continue
            other = (page.parent / target).resolve() if target else page
            other = other / "index.html" if other.is_dir() else other
            assert other.is_file(), f"{page.name}: {link}"
            if place and other in pages and not place.startswith("__"):
                assert place in pages[other].places, f"{page.name}: {link}"
