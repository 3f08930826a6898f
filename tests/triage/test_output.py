"""Results by convention: tables and words when piped, too; JSON by `--json`; three commands write lines."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.helpers.failing import clip_exception, verdict
from tests.house.reference import COMMANDS_PAGE, commands, names_of, options
from triage.bugs.failures import record_failure
from triage.cli import run
from triage.console.output import LINES_OF_A_TITLE, table
from triage.store.database import Store

COMMANDS = Path(__file__).parents[2] / "triage" / "commands"
LONG = "a sentence of a compiler that says at length what it met " * 20


@pytest.fixture
def database(tmp_path: Path) -> str:
    with Store(tmp_path / "crux.db") as store:
        record_failure(store, clip_exception(), verdict(LONG))
    return str(tmp_path / "crux.db")


def test_a_pipe_gets_a_table_with_a_line_for_each_row(database, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert run(["triage", "--db", database]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"id +state +failures +title +known as +related", head)
    assert row.startswith("C0001")
    assert row == row.rstrip()
    assert "\x1b" not in head + row


def test_lines_of_json_come_from_three_commands_and_the_reference_says_so():
    writers = {path.stem for path in COMMANDS.glob("*.py") if "lines_if_piped=True" in path.read_text()}
    assert writers == {"fuzz", "check", "reduce"}
    said = "Only `fuzz`, `check` and `reduce` write JSON lines when their stdout is no terminal"
    assert said in " ".join(COMMANDS_PAGE.read_text().split())


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_title_takes_two_lines_at_most(width):
    console = Console(width=width, force_terminal=True, no_color=True)
    with console.capture() as shown:
        console.print(table(("id", "title"), [("C0001", LONG), ("C0002", "short")]))
    _, *rows = shown.get().splitlines()
    assert len(rows) == LINES_OF_A_TITLE + 1
    assert rows[1].rstrip().endswith("…")


def test_quiet_leaves_results_and_complaints(database, tmp_path, capsys):
    assert run(["triage", "--db", database, "--quiet"]) == 0
    said = capsys.readouterr()
    assert "C0001" in said.out
    assert said.err == ""
    assert run(["triage", "--db", str(tmp_path / "none.db"), "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("crux: ")


def test_color_can_be_forced_into_a_pipe_and_kept_out(database, capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(["triage", "--db", database, "--color", "always"]) == 0
    assert "\x1b[" in capsys.readouterr().out
    assert run(["triage", "--db", database]) == 0
    assert "\x1b[" not in capsys.readouterr().out


def test_crux_alone_is_a_screen_with_three_jobs(capsys):
    assert run([]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 20
    jobs = [line for line in lines if line.startswith("You ")]
    assert len(jobs) == 3
    named = re.findall(r"crux ([a-z]+)", "\n".join(jobs))
    assert len(named) == 6
    assert {*named} <= commands().keys()
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", ["", *sorted(commands())])
def test_help_fits_on_a_screen_and_all_of_it_is_there_on_request(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*name.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert run([*name.split(), "--help-all"]) == 0
    whole = capsys.readouterr().out
    named = [each for option in options(commands()[name]) for each in names_of(option)] if name else []
    assert [each for each in named if each not in whole] == []
