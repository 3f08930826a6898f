"""However a reduction ends, the best so far is there: valid, failing, and to be gone on with."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from reducer.api import reduce_case
from reducer.course import Options
from reducer.engine.journal import Answer, Journal
from reducer.result import NAME
from tests.helpers.commands import waited_for
from tests.helpers.models import chain_of, model_of

CHECK = "grep -q Erf {}"
CRUX = [sys.executable, "-m", "triage.cli"]


def network() -> Case:
    """A chain of twenty nodes; the predicate needs one of them."""
    operators = ["Neg", "Abs", "Relu", "Sigmoid", "Tanh"] * 4
    operators[11] = "Erf"
    program = chain_of(operators, "2,3").SerializeToString()
    return Case("onnx", program, {"x": np.ones((2, 3), np.float32)})


def options(**settings: Any) -> Options:
    return Options(check=CHECK, **settings)


def must_be_sound(folder: Path) -> None:
    """A valid case that still fails, with what is told of it."""
    found = Case.load(folder)
    assert b"Erf" in found.program
    assert found.measure.nodes <= 20
    assert json.loads((folder / NAME).read_text())["nodes_before"] == 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """The case that an undisturbed reduction leaves, and its checks."""
    done = reduce_case(network(), tmp_path_factory.mktemp("whole") / "out", options())
    assert done.is_minimal
    return done.case.case_id, done.checks


def some(values: list[Any], quick: list[Any]) -> list[Any]:
    """All of them, those that the default suite has no time for marked."""
    return [pytest.param(each, marks=() if each in quick else pytest.mark.slow) for each in values]


@pytest.mark.parametrize("minutes", some([0.0, 0.0005, 0.002, 0.005], [0.0]))
def test_a_reduction_that_runs_out_of_time_leaves_its_best(tmp_path, whole, minutes):
    reduce_case(network(), tmp_path / "out", options(minutes=minutes))
    must_be_sound(tmp_path / "out")
    assert reduce_case(network(), tmp_path / "out", options()).case.case_id == whole[0]


def test_time_that_runs_out_on_a_target_is_no_failure_of_ours(tmp_path):
    """A crash of onnxruntime's: integer division by zero."""
    model = model_of("g (int32[2] a, int32[2] b) => (int32[2] y) { n = Neg (a) y = Div (n, b) }")
    inputs = {"a": np.array([1, 2], np.int32), "b": np.array([0, 1], np.int32)}
    Case("onnx", model.SerializeToString(), inputs).save(tmp_path / "case")
    words = ["reduce", str(tmp_path / "case"), "-o", str(tmp_path / "out"), "--minutes", "0.01"]
    done = subprocess.run([*CRUX, *words], capture_output=True, text=True, check=False)

    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert Case.load(tmp_path / "out").measure.nodes <= 2


def hears(process: subprocess.Popen[bytes], number: int) -> bool:
    """Whether a process handles a signal itself by now."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> number - 1 & 1)
    return False


def interrupted_early(folder: Path, words: list[str], number: int, seconds: float) -> tuple[int, str]:
    """A command sent a signal so long after it began to listen; its exit code and what it said."""
    network().save(folder / "case")
    with subprocess.Popen([*CRUX, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert waited_for(lambda: process.poll() is not None or hears(process, signal.SIGTERM))
        time.sleep(seconds)
        process.send_signal(number)
        _, text = process.communicate()
    return process.returncode, text.decode()


@pytest.mark.parametrize(
    "seconds", some([0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0], [0.1, 0.15])
)
def test_a_signal_before_the_first_verdict_says_that_nothing_was_seen(tmp_path, seconds):
    """Or, where it comes later, leaves the best so far."""
    number = random.Random(seconds).choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    words = ["reduce", str(tmp_path / "case"), "-o", str(tmp_path / "out"), "--check", CHECK]
    code, said = interrupted_early(tmp_path, words, number, seconds)

    assert code in (0, 130)
    assert "Traceback" not in said
    if (tmp_path / "out" / NAME).exists():
        must_be_sound(tmp_path / "out")
    else:
        (line,) = said.splitlines()
        assert "not seen to fail yet" in line or line.endswith("is kept"), line
    done = reduce_case(network(), tmp_path / "out", options())
    assert done.is_minimal


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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    ],
)
def test_what_cannot_be_used_is_one_line(folder, monkeypatch, capsys, words, code, is_judged):
    from triage.cli import run

    monkeypatch.chdir(folder)
    assert run(words.split()) == code
    said = capsys.readouterr()
    assert len(said.err.splitlines()) <= 1
    assert ('"outcome": "pass"' in said.out) is is_judged


def test_a_locked_database_loses_no_verdict(folder, monkeypatch):
    import sqlite3

    from triage.cli import run
    from triage.store import database
    from triage.store.database import Store

    with Store(folder / "locked.db"):
        pass
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)
    with sqlite3.connect(folder / "locked.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert run(["check", str(folder / "case"), "--db", str(folder / "locked.db")]) == 2


def test_two_processes_do_not_reduce_one_failure_at_once(tmp_path):
    from triage.reductions.folders import BeingReduced, locked

    work = tmp_path / "one.db.reducing" / "F00001"
    with locked(work, 5.0):
        with pytest.raises(BeingReduced), locked(work, 0.0):
            raise AssertionError("both are in")
        with locked(work.with_name("F00002"), 5.0):
            pass
    with locked(work, 0.0):
        pass
    assert not work.parent.exists()
