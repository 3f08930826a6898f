"""A reduction that is killed goes on where it was, and ends with the same bytes."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from reducer.api import finished, reduce_case
from reducer.course import CONFIRMATIONS, DoesNotFail, Options
from tests.helpers.commands import completed
from tests.helpers.models import chain_of, contents
from tests.reducer.driving import case_of, model_of

REDUCE = Path(__file__).with_name("killed.py")
CHECK = """
import sys, time
program = open(sys.argv[1], "rb").read()
time.sleep(0.01)
sys.exit(not (b"Sin" in program and b"Exp" in program))
"""


def network() -> Case:
    """Sin and Exp far from each other, in a chain."""
    middle = ["Neg", "Abs"] * 8
    return Case(
        "onnx",
        chain_of([*middle[:8], "Sin", *middle, "Exp", "Neg"]).SerializeToString(),
        {"x": np.ones(2, np.float32)},
    )


def network_with_weights() -> Case:
    """A wrong value amid weights: onnxruntime folds a Pad by zeros into a MaxPool of negative numbers."""
    text = (
        "g (float[1,2,5] x) => (float[1,2,2] y) <float[2,1] w = {0.5, 2}, float[5] b = {-1, -2, -3, -4, -5},"
        " float[3,2] m = {1, 0.5, -1, 0.25, 2, -0.5}, int64[6] pads = {0, 0, 0, 0, 0, 1}> {"
        " s = Mul (x, w) t = Add (s, b) p = Pad (t, pads) q = MaxPool <kernel_shape = [2], strides = [2]> (p)"
        " r = Tanh (q) y = MatMul (r, m) }"
    )
    return case_of(model_of(text), {"x": np.linspace(-1, -0.1, 10, dtype=np.float32).reshape(1, 2, 5)})


@dataclass(frozen=True)
class Undisturbed:
    """A case, how it is reduced, and the files and words of a reduction that nothing disturbs."""

    case: Path
    options: Mapping[str, Any]
    files: Mapping[str, bytes]
    said: Mapping[str, Any]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Undisturbed]:
    """By the kind of predicate: a user's command, or a mismatch of a target."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "check.py").write_text(CHECK)
    check = {"check": f"{shlex.join([sys.executable, '-IS', str(folder / 'check.py')])} {{}}"}

    @cache
    def reduced(kind: str) -> Undisturbed:
        case, options = (network(), check) if kind == "command" else (network_with_weights(), {})
        case.save(folder / kind)
        done = reduce_in_process(folder / kind, folder / f"{kind}-out", options)
        return Undisturbed(folder / kind, options, contents(folder / f"{kind}-out"), json.loads(done.stdout))

    return reduced


def reduce_in_process(
    case: Path,
    out: Path,
    options: Mapping[str, Any],
    when: str = "never",
    number: int = 0,
    **more: Any,
) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, REDUCE, case, out, json.dumps(options), when, str(number)]
    return completed(words, **{"check": when == "never", **more})


def same_as(out: Path, expected: Mapping[str, bytes]) -> None:
    found = contents(out)
    assert sorted(found) == sorted(expected)
    assert [name for name in expected if found[name] != expected[name]] == []


@pytest.mark.parametrize(("kind", "least"), [("command", ["Exp", "Sin"]), ("mismatch", ["MaxPool", "Pad"])])
def test_the_reduction_is_the_least_and_its_folder_complete(undisturbed, kind, least):
    done = undisturbed(kind)
    assert done.files.keys() == {"model.onnx", "inputs.npz", "case.json", "reduction.json", "journal.jsonl"}
    assert done.said["minimal"]
    assert sorted(done.said["ops"]) == least


@pytest.mark.parametrize(
    ("kind", "jobs"), [("mismatch", 1), pytest.param("command", 2, marks=pytest.mark.slow)]
)
def test_killed_after_some_checks_again_and_again(undisturbed, tmp_path, kind, jobs):
    done = undisturbed(kind)
    options = {**done.options, "jobs": jobs}
    for number in (1, max(2, done.said["checks"] // 2)):
        killed = reduce_in_process(done.case, tmp_path / "out", options, "check", number)
        assert killed.returncode == -signal.SIGKILL
    again = reduce_in_process(done.case, tmp_path / "out", options)
    assert json.loads(again.stdout)["checks"] == done.said["checks"]
    same_as(tmp_path / "out", done.files)


EVERY = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("kind", "jobs", "is_every"),
    [
        ("mismatch", 2, False),
        *(pytest.param(kind, jobs, True, marks=EVERY) for kind in ("command", "mismatch") for jobs in (1, 2)),
    ],
)
def test_killed_at_a_call_of_the_predicate(undisturbed, tmp_path, kind, jobs, is_every):
    """At every single one, or at one near the end."""
    done = undisturbed(kind)
    options = {**done.options, "jobs": jobs}
    checks = done.said["checks"]
    for number in range(1, checks + 1) if is_every else [checks - 3]:
        out = tmp_path / str(number)
        killed = reduce_in_process(done.case, out, options, "call", number)
        assert killed.returncode == -signal.SIGKILL
        assert finished(out) is None
        reduce_in_process(done.case, out, options)
        same_as(out, done.files)


COUNTED = """
import hashlib, os, signal, sys, time
program, inputs = (open(path, "rb").read() for path in (sys.argv[2], sys.argv[2][:-10] + "inputs.npz"))
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(file, hashlib.sha256(program + inputs).hexdigest().encode() + b"\\n")
if os.fstat(file).st_size == 65 * int(sys.argv[3]):
    os.kill(int(os.environ["REDUCING"]), signal.SIGKILL)
time.sleep(0.02)
sys.exit(not (b"Sin" in program and b"Exp" in program))
"""
KILLS = (3, 12)
"""After how many calls in all; a line of what is noted has 65 bytes."""


def test_after_kills_nothing_is_asked_again_but_what_each_worker_was_at(undisturbed, tmp_path):
    """At each kill, and when the search ends, each worker is at one call; the result is asked again then.

    What is guessed may depend on how quick the answers come.
    """
    script, noted, kill = (tmp_path / name for name in ("check.py", "noted", "kill"))
    script.write_text(COUNTED)
    line = shlex.join([sys.executable, "-IS", str(script), str(noted)])
    options = {"check": f"{line} {{}} $(cat {shlex.quote(str(kill))})", "jobs": 2}
    for number in (*KILLS, 0):
        kill.write_text(str(number))
        process = reduce_in_process(undisturbed("command").case, tmp_path / "out", options, check=False)
        assert process.returncode == (-signal.SIGKILL if number else 0)
    asked = noted.read_text().split()
    assert len(asked) - len(set(asked)) <= 2 * (len(KILLS) + 1) + CONFIRMATIONS


@pytest.mark.slow
def test_killed_while_files_are_written(undisturbed, tmp_path):
    """Whatever file was to be put in its place next, the one more run that follows ends the same."""
    done = undisturbed("mismatch")
    options = {**done.options, "jobs": 2}
    number, was_killed = 1, True
    while was_killed:
        out = tmp_path / str(number)
        killed = reduce_in_process(done.case, out, options, "file", number)
        was_killed = killed.returncode == -signal.SIGKILL
        if finished(out) is None:
            reduce_in_process(done.case, out, options)
        same_as(out, done.files)
        number += 1
    assert number > 3


def test_a_finished_reduction_run_again_asks_nothing_and_changes_nothing(undisturbed, tmp_path, monkeypatch):
    done = undisturbed("command")
    for name, content in done.files.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr("reducer.session.Command", lambda *settings: None)
    again = reduce_case(Case.load(done.case), tmp_path, Options(**done.options))
    assert again.to_json()["checks"] == done.said["checks"]
    same_as(tmp_path, done.files)


OTHER = case_of(model_of("g (float[2] x) => (float[2] y) { y = Sin (x) }"))


@pytest.mark.parametrize(("other", "check"), [(OTHER, "true"), (network(), "false")], ids=["case", "options"])
def test_the_journal_of_another_case_or_with_other_options_is_refused(undisturbed, tmp_path, other, check):
    journal = undisturbed("command").files["journal.jsonl"]
    (tmp_path / "journal.jsonl").write_bytes(journal)
    with pytest.raises(UserError, match="another case or with other options"):
        reduce_case(other, tmp_path, Options(check=check))
    assert contents(tmp_path) == {"journal.jsonl": journal}


def test_a_line_cut_short_by_a_kill_is_asked_again(undisturbed, tmp_path):
    done = undisturbed("command")
    journal = done.files["journal.jsonl"]
    (tmp_path / "journal.jsonl").write_bytes(journal[: len(journal) - 20])
    reduce_case(Case.load(done.case), tmp_path, Options(**done.options))
    same_as(tmp_path, done.files)


def test_a_case_that_does_not_fail_leaves_no_result(tmp_path):
    with pytest.raises(DoesNotFail):
        reduce_case(network(), tmp_path / "out", Options(check="false"))
    assert finished(tmp_path / "out") is None
    assert not (tmp_path / "out" / "model.onnx").exists()


def test_a_spent_budget_leaves_the_best_so_far_and_more_budget_goes_on_from_there(undisturbed, tmp_path):
    done = undisturbed("command")
    case, half = Case.load(done.case), done.said["checks"] // 2
    early = reduce_case(case, tmp_path, Options(**done.options, max_checks=half))
    assert not early.is_minimal
    assert early.checks == half
    assert early.after.nodes < early.before.nodes
    assert Case.load(tmp_path).case_id == early.case.case_id
    assert finished(tmp_path) is None
    reduce_case(case, tmp_path, Options(**done.options))
    same_as(tmp_path, done.files)


def test_minutes_are_told_by_the_clock_of_the_options(tmp_path):
    case = network_with_weights()
    still = reduce_case(case, tmp_path / "still", Options(minutes=1e-9, clock=lambda: 0.0))
    assert still.is_minimal  # however long it takes by another clock
    ticks = count()
    ended = reduce_case(case, tmp_path / "ticking", Options(minutes=1, clock=lambda: 10.0 * next(ticks)))
    assert not ended.is_minimal
    assert ended.checks < still.checks
