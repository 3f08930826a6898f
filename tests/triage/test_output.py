"""Results by convention: tables and words when piped, too; JSON by `--json`; three commands write lines."""

import re
import shlex
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.commands import crux, on_a_terminal
from tests.helpers.failing import clip_exception, division_crash, verdict
from tests.house.reference import commands, names_of, options
from triage.bugs.failures import record_failure
from triage.cli import run
from triage.store.database import Store

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


# On a terminal no command is silent for long: it says what it does, and for how long

ROOT = Path(__file__).parents[2]
SILENCE = 4.0
"""Seconds on a quiet machine: two, and as many for what a command starts."""
PATIENT = """
import sys, time
from triage.console import status
from triage.console.foot import FOOT
from triage.console.output import say
sys.argv = ["crux", "doctor"]
with FOOT.shown("doctor"), status.progress() as shown:
    time.sleep(2.2)
    shown.status("trying \x1b[31mtargets")
    time.sleep(0.6)
    say("done")
"""


def slowness() -> float:
    """How many times longer work takes here at the moment than the processor is at it."""
    wall, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < 0.1:
        pass
    return (time.monotonic() - wall) / (time.process_time() - cpu)


def told_in_time(*command: str, cwd: Path) -> str:
    """What it writes in the first of three runs that is not silent for long, as time goes on this machine."""
    for _ in range(3):
        before = slowness()
        text, silence = on_a_terminal(*command, cwd=cwd)
        if silence < SILENCE * max(1.0, before, slowness()):
            return text
    raise AssertionError("silent for long in each of three runs")


def frames(text: str) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[\r\n]+$", "", each) for each in text.split("\r\x1b[K")]


def test_the_line_says_what_is_done_and_leaves_nothing_behind(tmp_path):
    text = told_in_time(sys.executable, "-c", PATIENT, cwd=ROOT)
    shown = frames(text)
    clocks, words = zip(*(each.partition("  ")[::2] for each in shown), strict=True)
    assert {each for each in clocks if each.startswith("0:")}
    assert {"doctor", "trying  [31mtargets"} <= set(words)
    assert shown[-1] == "done"


@pytest.mark.parametrize(
    "words",
    [
        "check case",
        "reduce case -o small",
        "passes small",
        "report small -o told --offline",
        pytest.param("doctor", marks=pytest.mark.slow),
        pytest.param("hunt --minutes 0.1 -o found", marks=pytest.mark.slow),
        "triage",
    ],
)
def test_no_command_is_silent_for_long(words, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "waits"
    folder.mkdir(exist_ok=True)
    if not (folder / "case").exists():
        clip_exception().save(folder / "case")
    crux = str(Path(sys.executable).with_name("crux"))
    told_in_time(crux, *words.split(), cwd=folder)


# The `next:` lines of the commands: each works when it is pasted, with the options that were given

NEXT = re.compile(r"next: (?:file .* then: )?crux (.*?)(?:, if they are one bug)?$", re.MULTILINE)
SHORT = re.compile(r"check|reduce|report|triage(?! merge)")
"""Neither a hunt nor a decision of a person."""


@pytest.mark.slow
def test_each_next_line_can_be_pasted(tmp_path):
    division_crash().save(tmp_path / "a case")
    (tmp_path / "k.toml").write_text("")
    waiting = [
        "check 'a case' --db 'my db' --timeout 30 --target ort",
        "reduce --all --db 'my db' --timeout 30",
    ]
    waiting += ["triage --db 'my db' --known k.toml", "triage why C0001 C0001 --db 'my db'"]
    ran: list[str] = []
    while waiting:
        words = waiting.pop(0)
        done = crux(tmp_path, *shlex.split(words))
        assert done.returncode in (0, 1), (words, done.stderr)
        ran.append(words)
        waiting += [each for each in NEXT.findall(done.stderr) if each not in ran and SHORT.match(each)]
    assert "reduce 'a case' -o crux-small --db 'my db' --target ort --timeout 30.0" in ran
    assert "report crux-small -o crux-report --db 'my db' --target ort --timeout 30.0" in ran
    assert "report C0001 --db 'my db' --known k.toml" in ran
    assert "triage merge C0001 C0001 --db 'my db'" not in ran
