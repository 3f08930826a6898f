"""`--timeout` bounds a whole check: opening, inference, every run, and what crux computes itself."""

import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from corpus.allowance import OutOfTime, allowance, allowed, left_of, take
from corpus.case import Case
from corpus.errors import UserError
from corpus.onnx import client
from corpus.onnx.canonical import steps
from corpus.onnx.graph import inlined, written_out
from corpus.target import Target
from oracles.judge import Judge
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Limits, Mark, Outcome, Status
from tests.helpers.commands import completed
from tests.helpers.endless_models import ENDLESS, doubling_functions, endless_loop, many_nodes
from tests.helpers.models import cyclic, relu
from tests.helpers.sources import ROOT
from triage.cases.sources import bounded

HOSTILE = str(Path(__file__).with_name("hostile_backend.py"))
SECONDS = 1.0
OVERHEAD = 8.0
"""CPU seconds to start crux and its workers, generously, on a machine that is busy."""


# The allowance


def compute_without_end() -> None:
    while True:
        pass


def test_what_crux_itself_computes_has_an_end():
    with pytest.raises(OutOfTime), allowed(0.05):
        compute_without_end()
    assert allowance() is None


def test_no_worker_gives_itself_more_than_the_outer_allowance_has():
    with allowed(10) as outer, allowed(100) as inner:
        take(4)
        assert inner.left == pytest.approx(outer.left, abs=0.5) == pytest.approx(6, abs=0.5)
        take(-100)  # a worker's own word
        take(float("nan"))
        assert outer.left < 7
        take(7)
        with pytest.raises(OutOfTime):
            left_of(1)


def test_a_command_says_in_one_line_that_it_gives_up():
    with pytest.raises(UserError, match=r"m.onnx: .*raise --timeout"), bounded(0.05, "m.onnx"):
        compute_without_end()


# How much a model stands for


@pytest.mark.parametrize(
    ("model", "least", "most"),
    [
        (doubling_functions(18), 1 << 18, 1 << 20),
        (endless_loop(), 1 << 62, 1 << 64),
        (endless_loop("x"), float("inf"), float("inf")),
        (many_nodes(10), 10, 10),
    ],
)
def test_the_steps_of_a_model_are_counted(model, least, most):
    assert least <= steps(model, {"x": np.ones(2, np.float32)}) <= most


# Runs


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(HOSTILE, limits=Limits(cpu_seconds=0.4, wall_seconds=60.0)) as found:
        found.run(Job(b"0", {}, (Config("plain"),)))
        yield found


def test_a_run_gets_no_more_than_the_check_has_left(sandbox):
    job = Job(b"compute()", {}, (Config("one"), Config("two"), Config("three")))
    with pytest.raises(OutOfTime) as caught, allowed(1.5):
        sandbox.run(job)
    assert [run.status for run in caught.value.runs] == [Status.TIMEOUT]
    assert sandbox.run(Job(b"0", {}, (Config("plain"),)))[0].is_ok


@pytest.mark.slow
def test_a_worker_that_gets_rid_of_its_limit_ends_all_the_same(sandbox):
    (run,) = sandbox.run(Job(b"stubborn()", {}, (Config("plain"),)))
    assert run.status is Status.TIMEOUT


def test_a_case_that_takes_too_long_in_all_is_undecided():
    """Not one run of it hangs: what it takes in all counts."""
    model = many_nodes(3)
    case = Case("onnx", model.SerializeToString(), {"x": np.ones(2, np.float32)}, Target("ort"))
    with Judge(Target("ort"), limits=Limits(cpu_seconds=0.1)) as judge:
        judge.executor.begin()
        with allowed(100):
            assert judge.verdict(case).outcome is Outcome.PASS
            take(99)
            found = judge.verdict(case)
    assert (found.outcome, found.notes, found.is_bug) == (Outcome.UNDECIDED, (Mark.OUT_OF_TIME.value,), False)


# Whole checks


def check(folder: Path, name: str) -> tuple[int, dict[str, object], str, float]:
    """`crux check` of an endless model: code, document, what it said, CPU seconds in all."""
    path = folder / "model.onnx"
    path.write_bytes(ENDLESS[name]().SerializeToString())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ["check", str(path), "--timeout", str(SECONDS)]
    done = completed([sys.executable, "-m", "triage.cli", *words])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr, took


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
def test_a_model_without_an_end_is_no_bug_of_the_compiler(tmp_path, name):
    code, found, said, took = check(tmp_path, name)

    assert code in (0, 2), (found, said)
    assert found.get("outcome") in (None, "undecided", "invalid", "pass")
    assert bool(found) is (code == 0)
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 1
    assert took < Limits(cpu_seconds=SECONDS).check_seconds + OVERHEAD


# What reads a model natively, onnx's checker and inference, can compute and answer, and no more

CALLS = (
    "open('/etc/hostname')",
    "open('written', 'w')",
    "socket.socket()",
    "os.kill(os.getppid(), 0)",
    "os.fork()",
    "os.execv('/bin/true', ['true'])",
)


@pytest.mark.parametrize("call", CALLS)
def test_nothing_else_is_there(call):
    code = f"import os, socket\nfrom corpus.onnx.server import shut_in\nshut_in()\nprint('in')\n{call}"
    done = completed([sys.executable, "-c", code], cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "in\n")
    assert "FileNotFoundError" in done.stderr


def test_onnx_answers_all_the_same():
    sound, cycle = relu().SerializeToString(), cyclic().SerializeToString()
    assert client.infer_types(sound)
    assert client.check(sound, sound) is None
    assert "topologically sorted" in (client.check(cycle, cycle) or "")


def test_functions_that_call_themselves_are_not_written_out():
    model = relu()
    opsets = [*model.opset_import, helper.make_opsetid("own", 1)]
    again = helper.make_node("F", ["a"], ["b"], domain="own")
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], [again], opsets))
    for write_out in (written_out, inlined):
        with pytest.raises(ValueError, match=r"[Cc]ycl"):
            write_out(model)
