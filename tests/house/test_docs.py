"""The documents name everything that there is, and nothing that there is not."""

import dataclasses
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from generators.strategies import strategies
from oracles.abilities import Backend
from oracles.backends import backends
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
)

DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "BENCHMARKS.md", "CHANGELOG.md"]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TEXT = "\n".join(path.read_text() for path in [*(ROOT / name for name in DOCUMENTS), *PAGES])
CODE = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", TEXT, flags=re.DOTALL))
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


def test_every_file_named_exists():
    top = "bin|corpus|oracles|reducer|generators|triage|tests|.ci"
    text = TEXT + (ROOT / "AGENTS.md").read_text().replace("/NAME.py", "")
    named = {*re.findall(rf"`((?:{top})/[\w./-]*)`", text), *re.findall(r"\]\((?!http|#)([^)#]+)", text)}
    named |= {f"tests/bench/{name}" for name in re.findall(r"\bbench_\w+\.py", text)}
    assert len(named) > 50
    places = (ROOT, ROOT / "docs")
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_heading_leads_to_one(page):
    for name, place in re.findall(r"\]\(([\w.-]*)#([\w-]+)\)", page.read_text()):
        headings = re.findall(r"^#+ (.*)", (page.parent / (name or page.name)).read_text(), re.MULTILINE)
        assert place in [re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings]


def test_every_command_named_in_a_sentence_exists():
    assert set(re.findall(r"`crux ([a-z]+)", TEXT)) <= {name.split()[0] for name in commands()}


def test_the_guide_to_a_backend_names_fields_that_there_are():
    named = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/own-backend.md").read_text(), flags=re.MULTILINE)
    assert named
    assert {*named} <= {each.name for each in dataclasses.fields(Backend)}


# What assistants read names what there is: commands, files, exit codes

GUIDE = (ROOT / "docs/for-agents.md").read_text()
INDEX = (ROOT / "llms.txt").read_text()


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


# The documents become a static site


def test_the_site_holds_every_page_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("zensical")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "-f", "mkdocs.yml", "--strict"]
    done = completed(command, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for path in PAGES:
        page = (tmp_path / "site" / f"{path.stem}.html").read_text()
        assert re.findall(r'(?:\bsrc=|<link[^>]*href=)"?(?:https?:)?//', page) == []
