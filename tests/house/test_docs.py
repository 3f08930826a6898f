"""The documents name everything that there is, and nothing that there is not."""

import dataclasses
import os
import re
import shlex
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from generators.strategies import strategies
from oracles.abilities import Backend
from oracles.backends import backends
from oracles.optional import asked_oracles
from tests.helpers.commands import completed
from tests.house.reference import (
    COMMANDS_PAGE,
    LISTS,
    MAN_PAGE,
    MARKED,
    ROOT,
    Command,
    commands,
    commands_page,
    documents,
    filled,
    man_page,
    names_of,
    options,
    rule_names,
)
from triage.cli import run

DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "BENCHMARKS.md", "CHANGELOG.md"]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TEXT = "\n".join(path.read_text() for path in [*(ROOT / name for name in DOCUMENTS), *PAGES])
CODE = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", TEXT, flags=re.DOTALL))
FIRST_COMMANDS = ["bin/crux hunt --minutes 2 --target ort", "bin/test"]
MOST_WORDS = 20_000
"""Of all documents together, without the reports in `docs/examples`."""


def spellings(command: Command) -> set[str]:
    """Every name of every option that the command's help shows."""
    return {name for option in options(command) for name in names_of(option)}


def is_named(name: str) -> bool:
    """Whether the documents hold the name as a word of its own, in code marks or a code block."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", CODE) is not None


def shell_lines() -> list[str]:
    """The `crux` commands of the documents' code blocks, without prompts and comments."""
    blocks = re.findall(r"```(?:console|sh|bash)\n(.*?)```", TEXT, flags=re.DOTALL)
    lines = [line.removeprefix("$ ").strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(("bin/crux ", "crux "))]


def words(path: Path) -> int:
    return len(path.read_text().split())


def test_the_reference_of_commands_is_what_the_program_says():
    assert COMMANDS_PAGE.read_text() == commands_page(), "run python -m tests.house.reference"
    assert MAN_PAGE.read_text() == man_page(), "run python -m tests.house.reference"


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_the_lists_in_a_document_are_those_of_the_program(path):
    assert path.read_text() == filled(path.read_text()), "run python -m tests.house.reference"


def test_every_list_stands_in_a_document():
    assert {found[2] for found in MARKED.finditer(TEXT)} == set(LISTS)


def test_the_documents_are_short():
    assert words(ROOT / "README.md") < 900
    assert words(ROOT / "ARCHITECTURE.md") <= 2_000
    examples = ROOT / "docs/examples"
    pages = [path for path in (ROOT / "docs").rglob("*.md") if examples not in path.parents]
    assert sum(map(words, [*(ROOT / name for name in DOCUMENTS), *pages])) <= MOST_WORDS


def test_every_command_and_option_is_named():
    names = {*commands()} | {name for each in commands().values() for name in spellings(each)}
    assert len(names) > 60
    assert sorted(name for name in names if not is_named(name)) == []


def first_column(page: str, heading: str) -> list[str]:
    """The code names in the first column of the table that follows a heading."""
    section = (ROOT / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)`", section, flags=re.MULTILINE)


def test_the_tables_of_rules_and_oracles_are_those_of_the_program():
    assert first_column("docs/verdicts.md", "Rules") == rule_names()
    assert first_column("docs/verdicts.md", "More oracles") == sorted(asked_oracles())


def test_every_backend_and_strategy_has_a_row():
    targets = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/targets.md").read_text(), flags=re.MULTILINE)
    assert {*backends()} <= {*targets}
    rows = " ".join(re.findall(r"^\|([^|]+)\|", (ROOT / "docs/campaigns.md").read_text(), flags=re.MULTILINE))
    assert [name for name in strategies() if f"`{name}`" not in rows] == []


@pytest.mark.parametrize("line", sorted(set(shell_lines())))
def test_every_command_shown_exists_with_its_options(line):
    words = shlex.split(line, comments=True)[1:]
    two = " ".join(words[:2])
    name = two if two in commands() else words[0]
    assert name in commands()
    own = words[: words.index("--")] if "--" in words else words
    shown = {word.split("=")[0] for word in own if re.match(r"--?[a-z]", word)}
    assert shown <= spellings(commands()[name]) | {"--help"}


def test_the_readme_opens_with_two_commands_that_exist():
    lines = (ROOT / "README.md").read_text().splitlines()
    for command in FIRST_COMMANDS:
        assert command in [line.removeprefix("$ ") for line in lines]
        assert os.access(ROOT / command.split()[0], os.X_OK)


def test_every_file_named_exists():
    top = "bin|corpus|oracles|reducer|generators|triage|tests|.ci"
    named = set(re.findall(rf"`((?:{top})/[\w./-]*)`", TEXT)) | set(
        re.findall(r"\]\((?!http|#)([^)#]+)", TEXT)
    )
    assert named
    named |= {f"tests/bench/{name}" for name in re.findall(r"\bbench_\w+\.py", TEXT)}
    places = (ROOT, ROOT / "docs")
    wanted = {name.partition("#")[0] for name in named}
    assert sorted(name for name in wanted if not any((place / name).exists() for place in places)) == []


@pytest.mark.parametrize("words", [(), ("hunt",), ("triage", "mark"), ("check",)])
def test_the_help_of_a_flag_asks_for_no_value(words, capsys):
    assert run([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: crux" in shown
    assert "<bool>" not in shown


def test_inputs_are_offered_where_a_case_is_named():
    assert "--inputs" in spellings(commands()["check"])
    makers = ("hunt", "fuzz", "generate", "replay", "wrap")
    assert [name for name in makers if "--inputs" in spellings(commands()[name])] == []


def test_the_guide_to_a_backend_names_fields_that_there_are():
    named = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/own-backend.md").read_text(), flags=re.MULTILINE)
    assert named
    assert {*named} <= {each.name for each in dataclasses.fields(Backend)}


# What assistants read names what there is: commands, files, exit codes

AGENTS = (ROOT / "AGENTS.md").read_text()
GUIDE = (ROOT / "docs/for-agents.md").read_text()
INDEX = (ROOT / "llms.txt").read_text()


def test_the_file_for_who_works_here_is_short_and_names_files_that_exist():
    assert len(AGENTS.splitlines()) < 120
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*|[\w.-]+\.(?:md|toml|py))`", AGENTS)
    named = [each for each in named if not {"NAME.py", "utils.py"} & {*each.split("/")}]
    assert len(named) > 15
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_the_index_links_every_guide_and_nothing_else():
    links = re.findall(r"\]\(([^)]+)\)", INDEX)
    assert [each for each in links if not (ROOT / each).is_file()] == []
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    special = {"docs/index.md", "docs/findings.md", "docs/relax.md", "docs/tir.md"}
    assert pages - special <= {*links}


@pytest.mark.parametrize("text", [GUIDE, INDEX], ids=["guide", "index"])
def test_each_exit_code_of_the_reference_is_there(text):
    codes = re.findall(r"^- (\d+): ", COMMANDS_PAGE.read_text(), flags=re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "130"]
    said = text[text.index("Exit codes") :]
    assert [code for code in codes if not re.search(rf"\b{code}\b", said)] == []


def test_the_commands_of_the_guide_exist():
    named = set(re.findall(r"`crux ([a-z]+)", GUIDE))
    assert {"check", "reduce", "report", "triage", "schema"} <= named <= commands().keys()


# The documents become a static site in which every link leads somewhere

TREE = Path(__file__).parents[2]


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
    shutil.copytree(TREE / "docs", folder / "docs")
    shutil.copy(TREE / "mkdocs.yml", folder)
    command = [sys.executable, "-m", "zensical", "build", "-f", "mkdocs.yml", "--strict"]
    done = completed(command, cwd=folder)
    assert done.returncode == 0, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)[-3000:]
    return folder / "site"


def test_every_page_of_the_documents_is_in_the_site(site):
    pages = [path.stem for path in (TREE / "docs").glob("*.md")]
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
