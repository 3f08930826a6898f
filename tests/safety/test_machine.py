"""What the machine refuses and what lies damaged on it: one line, the right exit code, no verdict lost."""

import errno
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from reducer.api import reduce_case
from reducer.course import Options
from reducer.engine.journal import Answer, Journal
from reducer.result import NAME
from tests.helpers.commands import ROOT, completed, on_a_terminal
from tests.helpers.models import chain_of
from triage.cli import WORKFLOWS, run
from triage.store.database import Store

CRUX = [sys.executable, "-m", "triage.cli"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("machine")
    Case("onnx", chain_of(["Erf"] * 3).SerializeToString(), {"x": np.ones(2, np.float32)}).save(
        found / "case"
    )
    return found


def crux(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A shell line with `crux` in it, in that folder."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    line = line.replace("crux", f"{' '.join(CRUX)}", 1)
    return completed(["bash", "-c", line], cwd=folder, env=environment)


# A disk that is full


def on_a_small_disk(folder: Path, size: str, line: str) -> subprocess.CompletedProcess[str]:
    """The line where `small` is a file system of that size, which goes with the line."""
    (folder / "small").mkdir(exist_ok=True)
    mount = f"mount -t tmpfs -o size={size} none small"
    done = crux(folder, f"unshare -rm bash -c '{mount} || exit 99; {line}'")
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"no file system can be mounted: {done.stderr}")
    return done


FULL = "head -c 1M /dev/zero > small/filling 2>/dev/null;"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "line", "code", "is_told"),
    [
        ("100k", "crux check case --db small/crux.db", 2, True),
        ("64k", f"{FULL} crux reduce case -o small/out --check true", 2, False),
        ("64k", f"{FULL} crux check case --db small/crux.db", 2, True),
        ("64k", f"{FULL} crux report case -o small/report", 2, False),
        ("64k", f"{FULL} crux hunt --minutes 0.1 -o small/hunt --db small/crux.db", 2, False),
        ("64k", "crux check case --db /dev/full", 2, True),
    ],
)
def test_a_full_disk_is_one_line(folder, size, line, code, is_told):
    done = on_a_small_disk(folder, size, line)

    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert "failure of its own" not in done.stderr
    assert [each for each in done.stderr.splitlines() if each.startswith("crux: ")] != []
    if is_told:
        assert json.loads(done.stdout.splitlines()[0])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_takes_no_more_is_told_as_such(code):
    from triage.console.output import disk_complaint

    assert disk_complaint(OSError(code, os.strerror(code), "here")).startswith("here: ")


# Databases


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """With one case in it, all of it in the file itself."""
    with Store(tmp_path / "crux.db") as store:
        store.add_case(Case("onnx", chain_of(["Erf"] * 3).SerializeToString(), {"x": np.ones(2, np.float32)}))
    with sqlite3.connect(tmp_path / "crux.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return tmp_path / "crux.db"


def problems(database: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = run(["db", "check", "--json", "--db", str(database)])
    text = capsys.readouterr().out
    return code, json.loads(text)["problems"]


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_a_damaged_page_is_told(database, capsys, share):
    """Page by page from there on: some hold nothing."""
    content = bytearray(database.read_bytes())
    for page in range(int(share * len(content)) // 4096, len(content) // 4096):
        if any(content[4096 * page :][:4096]):
            content[4096 * page : 4096 * page + 600] = b"\x5a" * 600
            break
    database.write_bytes(content)
    code, found = problems(database, capsys)

    assert code == 1
    assert found


@pytest.mark.parametrize("size", [0, 50, 20000])
def test_a_cut_database_is_told(database, capsys, size):
    os.truncate(database, size)
    assert run(["db", "check", "--db", str(database)]) in ((1,) if size else (0, 1))


@pytest.mark.parametrize("content", [None, b"", b"another"])
def test_a_missing_or_changed_blob_is_told(database, capsys, content):
    with Store(database) as store:
        digest = next(iter(store.blobs.digests()))
        path = store.blobs.path(digest)
    path.chmod(0o600)
    path.unlink() if content is None else path.write_bytes(content)
    code, found = problems(database, capsys)

    assert code == 1
    assert any(digest[:12] in line and "missing or damaged" in line for line in found)


# Terminals


COMMANDS = [name for names in WORKFLOWS.values() for name in names]
LINES = [
    *([name, "--help"] for name in COMMANDS),
    ["nonsense"],
    ["check", "case"],
    ["reduce", "case", "-o", "out", "--check", "true"],
    ["hunt", "--minutes", "0.1", "-o", "hunted", "--db", "crux.db"],
]


@pytest.mark.parametrize(
    "words", [["--help"], *(pytest.param(words, marks=pytest.mark.slow) for words in LINES)], ids=" ".join
)
def test_no_escape_reaches_a_terminal_that_wants_none(folder, words):
    colours = {"NO_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor", "FORCE_COLOR": "1"}
    written, _ = on_a_terminal(*CRUX, *words, cwd=folder, PYTHONPATH=str(ROOT), **colours)
    assert written
    assert {"\x1b", "\x9b", "\ufffd"}.isdisjoint(written)


# However a reduction ends, the best so far is there: valid, failing, and to be gone on with

CHECK = "grep -q Erf {}"


def network() -> Case:
    """A chain of twenty nodes; the predicate needs one of them."""
    operators = ["Neg", "Abs", "Relu", "Sigmoid", "Tanh"] * 4
    operators[11] = "Erf"
    program = chain_of(operators, "2,3").SerializeToString()
    return Case("onnx", program, {"x": np.ones((2, 3), np.float32)})


def options(**settings: Any) -> Options:
    return Options(check=CHECK, **settings)


def must_be_sound(refusing: Path) -> None:
    """A valid case that still fails, with what is told of it."""
    found = Case.load(refusing)
    assert b"Erf" in found.program
    assert found.measure.nodes <= 20
    assert json.loads((refusing / NAME).read_text())["nodes_before"] == 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """The case that an undisturbed reduction leaves, and its checks."""
    done = reduce_case(network(), tmp_path_factory.mktemp("whole") / "out", options())
    assert done.is_minimal
    return done.case.case_id, done.checks


def test_a_reduction_that_runs_out_of_time_leaves_its_best(tmp_path, whole):
    reduce_case(network(), tmp_path / "out", options(minutes=0.0))
    must_be_sound(tmp_path / "out")
    assert reduce_case(network(), tmp_path / "out", options()).case.case_id == whole[0]


def test_an_interrupt_before_the_first_verdict_is_one_line(tmp_path, monkeypatch, capsys):
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    network().save(tmp_path / "case")
    monkeypatch.setattr("reducer.engine.predicates.Command.__call__", stop)
    assert run(["reduce", str(tmp_path / "case"), "-o", str(tmp_path / "out"), "--check", CHECK]) == 130
    assert len(capsys.readouterr().err.splitlines()) == 1


# What lies on disk


def test_a_flipped_answer_is_asked_again(tmp_path, whole):
    reduce_case(network(), tmp_path, options(max_checks=15))
    journal = tmp_path / "journal.jsonl"
    text = journal.read_text()
    flipped = text.replace('"interesting": false', '"interesting": true')
    assert flipped != text
    journal.write_text(flipped)
    done = reduce_case(network(), tmp_path, options())

    assert b"Erf" in done.case.program
    assert done.case.case_id == whole[0]


def test_a_result_that_does_not_fail_is_never_called_minimal(tmp_path, whole):
    """Answers with checksums that hold, but which are wrong: the proof is made outside of the journal."""
    settings = options()
    honest = reduce_case(network(), tmp_path, options(max_checks=15))
    case = Case.load(tmp_path)
    journal = Journal(tmp_path / "journal.jsonl", settings.header(network()))
    journal.open()
    for key, answer in list(journal.answers.items()):
        journal.add(key, Answer(True, answer.symptom))
    journal.close()
    done = reduce_case(network(), tmp_path, settings)

    assert honest.case.case_id == case.case_id
    assert b"Erf" in done.case.program
    assert done.case.case_id == whole[0]


# What the machine refuses


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("refused")
    network().save(found / "case")
    (found / "garbage.db").write_text("no database at all, but long enough to look at" * 10)
    os.mkfifo(found / "fifo.npz")
    return found


@pytest.mark.parametrize(
    ("words", "code", "is_judged"),
    [
        ("check case --db /proc/nothing.db", 2, True),
        ("check case --db garbage.db", 2, True),
        ("check case --inputs fifo.npz", 2, False),
        ("check case --target ort@threads=999999999", 2, False),
        ("db check --db garbage.db", 1, False),
        ("db import garbage.db --db new.db", 2, False),
        ("db import case --db new.db", 2, False),
    ],
)
def test_what_cannot_be_used_is_one_line(refusing, monkeypatch, capsys, words, code, is_judged):
    from triage.cli import run

    monkeypatch.chdir(refusing)
    assert run(words.split()) == code
    said = capsys.readouterr()
    assert len(said.err.splitlines()) <= 1
    assert ('"outcome": "pass"' in said.out) is is_judged


def test_a_locked_database_loses_no_verdict(refusing, monkeypatch):
    import sqlite3

    from triage.cli import run
    from triage.store import database
    from triage.store.database import Store

    with Store(refusing / "locked.db"):
        pass
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)
    with sqlite3.connect(refusing / "locked.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert run(["check", str(refusing / "case"), "--db", str(refusing / "locked.db")]) == 2


def test_two_processes_do_not_reduce_one_failure_at_once(tmp_path):
    from triage.reductions.failures import BeingReduced, locked

    work = tmp_path / "one.db.reducing" / "F00001"
    with locked(work, 5.0):
        with pytest.raises(BeingReduced), locked(work, 0.0):
            raise AssertionError("both are in")
        with locked(work.with_name("F00002"), 5.0):
            pass
    with locked(work, 0.0):
        pass
    assert not work.parent.exists()
