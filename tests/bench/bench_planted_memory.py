"""Ten accesses out of bounds or of memory that nothing wrote, planted in TVM's pipeline: which are told.

Each is put into programs of three sizes; it is caught if all three verdicts name memory, or the process dies.
The sound programs must pass; of `CRUX_BENCH_PROGRAMS` (300) fresh ones those are counted that name memory.
What the guards cost is measured on the same.
"""

import os
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

import pytest

from corpus.case import Case
from corpus.target import Target
from corpus.tir.program import make_inputs, to_bytes
from corpus.tir.tree import Alloc, For, Function, Module, Store
from corpus.tir.values import Binary, Buffer, Const, Var, literal
from generators.feedback import BLOCK
from generators.mixture import Plan, make_cases
from oracles.judge import Judge
from oracles.probes.memory import with_misuse
from oracles.verdict import Mark, Outcome, Verdict
from tests.bench.planted_pipeline import PLAIN, UNGUARDED
from tests.helpers.wrong_memory import MISUSES, WORKSPACE, load

pytestmark = pytest.mark.bench
PROGRAMS = int(os.environ.get("CRUX_BENCH_PROGRAMS", "300"))
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
        with Judge(Target(plant("planted_pipeline", name)), format="tir") as judge:
            told = [with_misuse(judge.executor, case, judge.verdict(case)) for case in map(sound, SIZES)]
        rows.append((name, sum(map(is_told, told)), told[1].title))
    found = Counter[str]()
    with Judge(Target("tvm"), format="tir") as judge:
        assert all(judge.verdict(sound(size)).outcome is Outcome.PASS for size in SIZES)
        cases = list(make_cases(Plan("tir", passes_of="tvm"), range(77_000_000, 77_000_000 + PROGRAMS)))
        for place in range(0, PROGRAMS, BLOCK):
            part = cases[place : place + BLOCK]
            for case, look in zip(part, judge.look(part), strict=True):
                found["clean" if look else "told" if is_told(judge.verdict(case)) else "other"] += 1
    for name, caught, title in rows:
        say(f"| {name} | {caught} of {len(SIZES)} | {title[:80]} |")
    say(dict(found))
    assert sum(found.values()) == PROGRAMS


@pytest.mark.timeout(0)
def test_what_guarded_workspaces_cost(say, plant):
    """Each batch is looked at with and without them, in equal turns."""
    cpu, cases = (
        Counter[str](),
        list(make_cases(Plan("tir", passes_of="tvm"), range(78_000_000, 78_000_000 + PROGRAMS))),
    )
    with ExitStack() as stack:
        judges = [
            (name, stack.enter_context(Judge(Target(plant("planted_pipeline", name)), format="tir")))
            for name in (PLAIN, UNGUARDED)
        ]
        for _, judge in judges:
            judge.look(cases[:1])
        for place in range(0, PROGRAMS, BLOCK):
            judges.reverse()
            for name, judge in judges:
                start = judge.executor.cpu_seconds()
                judge.look(cases[place : place + BLOCK])
                cpu[name] += judge.executor.cpu_seconds() - start
    guarded, plain = cpu[PLAIN], cpu[UNGUARDED]
    say(f"\nguarded: {guarded / plain:.3f} times the CPU; {1000 * guarded / PROGRAMS:.0f} ms a program")


@pytest.mark.timeout(0)
def test_sound_programs_of_onnxruntime_keep_within_their_buffers(say):
    """Each by its optimised way, with and without the run between closed pages, in equal turns."""
    told, cpu = Counter[str](), Counter[str]()
    with Judge(Target("ort")) as judge:
        none, way = judge.configs[:2]
        plain = replace(way, settings=tuple(each for each in way.settings if each[0] != "providers"))
        ways = [("plain", plain), ("bound", way)]
        for case in make_cases(Plan("mixed"), range(651_000_000, 651_000_000 + PROGRAMS)):
            ways.reverse()  # the second of two has less to do
            for name, other in ways:
                start = judge.executor.cpu_seconds()
                runs = judge.runs(case, (none, other))
                cpu[name] += judge.executor.cpu_seconds() - start
                told[f"{name}: {runs[1].status}, {runs[1].message.startswith('memory: ')}"] += 1
    say(f"\n{dict(told)}; bound takes {cpu['bound'] / cpu['plain']:.3f} times the CPU")
