"""How many programs are made, run and judged in a CPU-second; printed, never asserted.

All CPU time counts: this process's and that of the sandboxes' processes; not what it takes to start them.
"""

import resource
from collections import Counter

import pytest

from corpus.target import Target
from generators.mixture import MIXED, Plan, make_cases
from generators.mutations.modes import Mode
from generators.strategies import strategy_names
from oracles.judge import Judge
from triage.campaigns.testers import judgement

pytestmark = pytest.mark.bench

TESTS = 1600
OTHERS = ("smt", "aten", "relax", "tir")
"""The beginnings of strategies that need a package of their own, or that onnxruntime does not run."""
ROWS = [
    (MIXED, Mode.MIXED),
    *((name, Mode.STRICT) for name in strategy_names() if not name.startswith(OTHERS)),
    ("random", Mode.DISRUPTIVE),
    ("random", Mode.VULNERABLE),
]


def own_seconds() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.mark.parametrize(("strategy", "mode"), ROWS)
def test_tests_per_cpu_second(strategy, mode, capsys):
    outcomes: Counter[str] = Counter()
    with Judge(Target("ort")) as judge:
        ask = judgement(judge)
        list(map(judge.verdict, make_cases(Plan("random", Mode.STRICT), range(8))))
        start = own_seconds() + judge.executor.cpu_seconds()
        for number, case in enumerate(make_cases(Plan(strategy, mode), range(TESTS))):
            outcomes[ask(case, number % 8 == 0).outcome.value] += 1
        seconds = own_seconds() + judge.executor.cpu_seconds() - start
    with capsys.disabled():
        print(f"\n{strategy} {mode}: {TESTS / seconds:.0f} tests per CPU-second; {sorted(outcomes.items())}")
