"""What assistants read names what there is: commands, files, exit codes."""

import re

import pytest

from tests.house.reference import COMMANDS_PAGE, ROOT, commands

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
