"""Scripts that show misuse of memory: buffers and workspaces stand between closed pages in them, too."""

import numpy as np
import pytest

from corpus.case import Case
from corpus.target import Target
from corpus.tir.program import make_inputs, to_bytes
from corpus.tir.tree import Alloc, For, Function, Module, Store
from corpus.tir.values import Buffer, Cast, Const, Load, Var
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.verdict import Config, Outcome, Phase, Run, Status
from tests.helpers.commands import needs
from tests.helpers.models import case_of
from tests.triage.test_repro import run_script
from triage.claims.claim import Claim, Expectation, expect
from triage.claims.titles import title_of
from triage.projects import DIES, project_of
from triage.reports import sentences
from triage.repro.script import write_script
from triage.repro.short import short_scripts
from triage.repro.source import source_of

TOLERANCE = Tolerance(1e-2, 1e-3)
LEVELS = [Config(name, (("level", name),)) for name in ("none", "all")]


def stored(dtype: str) -> Case:
    """Eight zeros of a type, stored as one vector and read one by one."""
    a, t = Buffer("A", (Const(1),), "float32"), Buffer("W", (Const(8),), dtype)
    i, j = Var("i"), Var("j")
    body = (
        Alloc(t),
        For(i, Const(0), Const(8), "vectorized", (Store("W", (i,), Const(0, dtype)),)),
        For(
            j,
            Const(0),
            Const(8),
            "serial",
            (Store("A", (Const(0),), Cast("float32", Load("W", (j,), dtype))),),
        ),
    )
    module = Module({"main": Function((a,), body)})
    return Case("tir", to_bytes(module), make_inputs(module, 1), target=Target("tvm"))


def claimed(expectation: Expectation) -> Claim:
    return Claim(expectation, "t", TOLERANCE, seconds=600.0, memory=8 << 30)


@needs("tvm")
def test_a_script_shows_that_a_workspace_is_read_that_nothing_was_written_to(tmp_path):
    case = stored("uint4")
    with Judge(Target("tvm"), format="tir") as judge:
        verdict = judge.verdict(case)
        if not verdict.is_bug:
            pytest.skip("the installed release does not show the bug")
        found = expect(verdict, TOLERANCE, project_of("tvm"))
        assert found.misuse == "reads an unwritten workspace"
        script = write_script(case, claimed(found), source=source_of(case, judge))
        fine = write_script(stored("uint8"), claimed(found), source=source_of(stored("uint8"), judge))
    assert "reads an unwritten workspace while" in title_of(found, ("store",), (), TOLERANCE)
    assert "TVM reads an unwritten workspace" in sentences.happened(found, "TVM")
    assert not short_scripts(case, claimed(found), source_of(case, judge)).script
    done = run_script(script, tmp_path)
    assert (done.returncode, "THE BUG SHOWS" in done.stdout) == (1, True), done.stdout + done.stderr
    done = run_script(fine, tmp_path)
    assert (done.returncode, "does not show" in done.stdout) == (0, True), done.stdout + done.stderr


@needs("tvm")
@pytest.mark.slow
@pytest.mark.parametrize("misuse", ["writes beyond the buffer A", DIES])
def test_a_sound_module_keeps_within_its_memory_in_such_a_script(misuse, tmp_path):
    case = stored("int32")
    with Judge(Target("tvm"), format="tir") as judge:
        runs = judge.verdict(case).runs
        source = source_of(case, judge)
    is_told = misuse != DIES
    status = Status.EXCEPTION if is_told else Status.CRASH
    failing = Run(runs[1].config, status, Phase.EXECUTE, message=f"memory: {misuse}" if is_told else "")
    outcome = Outcome.EXCEPTION if is_told else Outcome.CRASH
    told = Expectation(project_of("tvm"), outcome, failing, runs[0], fragment="memory: ", misuse=misuse)
    done = run_script(write_script(case, claimed(told), source=source), tmp_path)
    assert (done.returncode, "ended with ok" in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_sound_model_keeps_within_its_memory_in_such_a_script(tmp_path):
    case = case_of("g (float[3] x) => (float[3] y) { h = Relu (x) y = Neg (h) }", x=np.float32([1, 2, 3]))
    message = "memory: writes beyond the output y"
    failing = Run(LEVELS[1], Status.EXCEPTION, Phase.EXECUTE, message=message)
    passing = Run(LEVELS[0], Status.OK, Phase.EXECUTE)
    told = Expectation(
        project_of("ort"), Outcome.EXCEPTION, failing, passing, fragment=message, misuse=failing.misuse
    )
    script = write_script(case, claimed(told))
    assert "must_keep_within(session._sess" in script
    done = run_script(script, tmp_path)
    assert (done.returncode, "ended with ok" in done.stdout) == (0, True), done.stdout + done.stderr


@needs("tvm")
def test_a_module_that_cannot_be_read_does_not_look_like_a_bug(tmp_path):
    case = stored("int32")
    with Judge(Target("tvm"), format="tir") as judge:
        runs = judge.verdict(case).runs
        source = source_of(case, judge)
    told = Expectation(project_of("tvm"), Outcome.EXCEPTION, runs[1], runs[0], fragment="a message")
    script = write_script(case, claimed(told), source=source).replace("T.match_buffer", "T.no_such_thing")
    done = run_script(script, tmp_path)
    assert (done.returncode, "no_such_thing" in done.stderr) == (2, True)
