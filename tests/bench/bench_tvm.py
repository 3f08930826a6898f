"""CPU time of a small TVM test in each mode, a fork per test; printed, never asserted."""

import pytest

from corpus.target import Target
from generators.mixture import Plan, make_cases
from generators.mutations.modes import Mode
from oracles.judge import Judge

pytestmark = pytest.mark.bench

SEEDS = range(63_000_000, 63_000_040)
MODES = ["opt-level=0", "opt-level=0@run=off", "opt-level=3", "executor=compiled@opt-level=0"]


@pytest.mark.parametrize("mode", MODES)
def test_cpu_time_of_a_test(mode, capsys):
    cases = list(make_cases(Plan("random", Mode.STRICT, nodes=5), SEEDS))
    with Judge(Target.parse(f"tvm@{mode}"), lower_levels=False) as judge:
        judge.runs(cases[0], judge.configs[1:2])
        before = judge.executor.cpu_seconds()
        runs = [judge.runs(case, judge.configs[1:2])[0] for case in cases]
        seconds = judge.executor.cpu_seconds() - before
    used = [run.cpu_seconds for run in runs if run.is_ok]
    with capsys.disabled():
        print(f"\ntvm@{mode}: {len(cases) / seconds:.1f} tests per CPU-second, {len(used)} end well,", end="")
        print(f" {1000 * sum(used) / len(used):.0f} ms of CPU time each")
