"""What programs around patterns reach beside others; printed, never asserted.

For onnxruntime: distinct (pass, kinds of operators that it took away and put in) per CPU-minute of growing
and optimising. For TVM: `bench_relax.py`.
"""

import os
from collections import Counter
from itertools import chain

import onnx
import pytest

from corpus.case import Remark
from corpus.onnx.graph import walk_nodes
from corpus.target import Target
from generators.feedback import BLOCK
from generators.mixture import Plan
from generators.mutations.modes import Mode
from oracles.judge import Judge
from oracles.probes.record import Firing
from tests.helpers.campaigns import taught

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3000)]

PROGRAMS = int(os.environ.get("CRUX_BENCH_PROGRAMS", "320"))
SEED = 8_100_000


class Yield:
    """What the programs of one way of growing came to."""

    def __init__(self) -> None:
        self.placed = self.fired = self.programs = self.triggering = self.ran = 0
        self.passes: set[str] = set()
        self.effects: set[tuple[str, frozenset[str], frozenset[str]]] = set()
        self.cpu = 0.0

    def line(self, name: str) -> str:
        share = f"{self.fired / self.placed:6.1%} of {self.placed}" if self.placed else "-"
        effects = len(self.effects)
        return (
            f"{name:28} {self.ran / self.programs:6.1%} run, {share:16} fire, {len(self.passes):3} passes, "
            f"{effects:4} (pass, kinds), {60 * effects / self.cpu:6.0f} a CPU-minute of {self.cpu:.1f} s"
        )


def kinds(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in walk_nodes(model.graph) if node.op_type != "Constant")


def measure(plan: Plan, judge: Judge, firing: Firing) -> Yield:
    """Grow, optimise with the log, and ask once more without each pass that fired what is then different."""
    found, told = Yield(), judge.backend.passes
    assert told is not None
    level, blocks = judge.executor.configs[1], list(taught(plan, judge, PROGRAMS // BLOCK, SEED))
    found.cpu = sum(spent for _, spent in blocks)
    for case in chain.from_iterable(cases for cases, _ in blocks):
        (run,) = judge.executor.runs(case, (level,), collect_log=True)
        found.cpu += run.cpu_seconds
        found.programs += 1
        found.ran += run.is_ok
        names = case.remarks(Remark.PATTERN)
        fires = firing.passes(case.program) if run.is_ok else ()
        here = [name for name in names if name in fires or firing.fires(case.program, name)]
        found.placed, found.fired = found.placed + len(names), found.fired + len(here)
        found.triggering += bool(here)
        found.passes.update(fires, here)
        whole = judge.executor.optimised(case, level)
        for name in dict.fromkeys((*fires, *here)) if whole is not None else ():
            less = judge.executor.optimised(case, told.without(level, (name,)))
            if less is not None:
                gone, come = kinds(less) - kinds(whole), kinds(whole) - kinds(less)
                found.effects.add((name, frozenset(gone), frozenset(come)))
    return found


def test_what_strategies_reach(say):
    with Judge(Target("ort")) as judge, Firing(Target("ort")) as firing:
        plans = {
            strategy: Plan(strategy, Mode.STRICT, nodes=10, sequences=False)
            for strategy in ("random", "coverage", "patterns", "high_order")
        }
        lines = [measure(plan, judge, firing).line(strategy) for strategy, plan in plans.items()]
    say(f"\n{PROGRAMS} programs of 10 nodes each, onnxruntime", *lines, sep="\n")
