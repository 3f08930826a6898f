"""Ten accesses out of bounds or of memory that nothing wrote, planted in TVM's pipeline: which are told.

Each is put into programs of three sizes; it is caught if all three verdicts name memory, or the process dies.
The sound programs must pass.
"""

import pytest

from corpus.case import Case
from corpus.target import Target
from corpus.tir.program import make_inputs, to_bytes
from corpus.tir.tree import Alloc, For, Function, Module, Store
from corpus.tir.values import Binary, Buffer, Const, Var, literal
from oracles.judge import Judge
from oracles.probes.memory import with_misuse
from oracles.verdict import Mark, Outcome, Verdict
from tests.helpers.wrong_memory import MISUSES, WORKSPACE, load

pytestmark = pytest.mark.bench
SIZES = (8, 33, 1024)


def sound(size: int) -> Case:
    """Twice each element, through a workspace."""
    a, b = (Buffer(name, (Const(size),), "float32") for name in "AB")
    i, j = Var("i"), Var("j")
    fill = Store(
        "T", (i,), Binary("mul", load("A", Binary("floormod", i, Const(size))), literal(2, "float32"))
    )
    body = (
        Alloc(Buffer("T", (Const(WORKSPACE),), "float32")),
        For(i, Const(0), Const(WORKSPACE), "serial", (fill,)),
        For(j, Const(0), Const(size), "serial", (Store("B", (j,), load("T", j)),)),
    )
    module = Module({"main": Function((a, b), body)})
    return Case("tir", to_bytes(module), make_inputs(module, 1))


def is_told(verdict: Verdict) -> bool:
    told = "memory" in verdict.title or Mark.MEMORY in verdict.marks
    return verdict.is_bug and (told or verdict.outcome is Outcome.CRASH)


@pytest.mark.timeout(0)
def test_planted_accesses_are_told_and_sound_ones_pass(say, plant):
    rows = []
    for name in MISUSES:
        with Judge(Target(plant(name)), format="tir") as judge:
            told = [with_misuse(judge.executor, case, judge.verdict(case)) for case in map(sound, SIZES)]
        rows.append((name, sum(map(is_told, told)), told[1].title))
    with Judge(Target("tvm"), format="tir") as judge:
        assert all(judge.verdict(sound(size)).outcome is Outcome.PASS for size in SIZES)
    for name, caught, title in rows:
        say(f"| {name} | {caught} of {len(SIZES)} | {title[:80]} |")
