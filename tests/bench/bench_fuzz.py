"""How many programs are made, run and judged in a CPU-second; printed, never asserted.

All CPU time counts: this process's and that of the sandboxes' processes; not what it takes to start them.
"""

import resource
from collections import Counter

import numpy as np
import onnxruntime as ort
import pytest

from corpus.case import Case
from corpus.target import Target
from generators.mixture import MIXED, Plan, make_cases
from generators.modes import Mode
from generators.strategies import strategies
from oracles.judge import Judge
from oracles.verdict import Outcome
from triage.campaigns.testers import judgement

pytestmark = pytest.mark.bench

TESTS = 1600
OTHERS = ("smt", "aten", "relax", "tir")
"""The beginnings of strategies that need a package of their own, or that onnxruntime does not run."""
ROWS = [
    (MIXED, Mode.MIXED),
    *((name, Mode.STRICT) for name in strategies() if not name.startswith(OTHERS)),
    ("random", Mode.DISRUPTIVE),
    ("random", Mode.VULNERABLE),
]


def own_seconds() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.mark.parametrize(("strategy", "mode"), ROWS)
def test_tests_per_cpu_second(strategy, mode, say):
    outcomes: Counter[str] = Counter()
    with Judge(Target("ort")) as judge:
        ask = judgement(judge)
        list(map(judge.verdict, make_cases(Plan("random", Mode.STRICT), range(8))))
        start = own_seconds() + judge.executor.cpu_seconds()
        for number, case in enumerate(make_cases(Plan(strategy, mode), range(TESTS))):
            outcomes[ask(case, number % 8 == 0).outcome.value] += 1
        seconds = own_seconds() + judge.executor.cpu_seconds() - start
    say(f"\n{strategy} {mode}: {TESTS / seconds:.0f} tests per CPU-second; {sorted(outcomes.items())}")


def run_bare(case: Case) -> bool:
    """Whether the two levels of a loop that anybody would write differ; what it cannot run is skipped."""
    results = []
    for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
        options = ort.SessionOptions()
        options.graph_optimization_level, options.intra_op_num_threads = level, 1
        try:
            session = ort.InferenceSession(case.program, options)
            results.append(session.run(None, {name: np.asarray(each) for name, each in case.inputs.items()}))
        except Exception:  # the loop's own way: whatever fails is no difference
            return False
    try:
        return not all(map(np.allclose, *results))
    except (TypeError, ValueError):
        return True


def test_a_test_against_a_bare_loop(say):
    plan, seeds = Plan(MIXED, Mode.STRICT), range(20_000, 20_960)
    ort.set_default_logger_severity(4)
    cases = list(make_cases(plan, seeds))
    with Judge(Target("ort")) as judge:
        ask = judgement(judge)
        list(map(judge.verdict, cases[:8]))
        start = own_seconds() + judge.executor.cpu_seconds()
        made = enumerate(make_cases(plan, seeds))
        died = [ask(case, number % 8 == 0).outcome is Outcome.CRASH for number, case in made]
        tested = (own_seconds() + judge.executor.cpu_seconds() - start) / len(seeds)
    alive = [case for case, dies in zip(cases, died, strict=True) if not dies]  # a bare loop would end
    list(map(run_bare, alive[:32]))
    start = own_seconds()
    list(map(run_bare, alive))
    bare = (own_seconds() - start) / len(alive)
    say(f"\nmade and tested {tested / bare:.2f} times a bare loop of {1000 * bare:.1f} ms")
