"""Performance: the optimised program runs clearly longer than the un-optimised one, again and again."""

from __future__ import annotations

from collections.abc import Iterator

from corpus.case import Case
from oracles.asked import Asking, Way, named
from oracles.probes.context import Context
from oracles.run import Phase, Run
from oracles.verdict import Outcome, Symptom, Verdict

NAME = "perf"
TIMES = 3
FACTOR = 2.0
LEAST_SECONDS = 0.02
"""What the optimised run must take longer by, in CPU seconds of its execution alone."""


def ways(case: Case, asking: Asking) -> Iterator[Way]:
    """Both ways in turn."""
    for time in range(TIMES):
        yield Way(named(NAME, asking.configs[0], f"measured ({time + 1})"))
        yield Way(named(NAME, asking.optimised, f"measured ({time + 1})"))


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """The least time of each side counts: what disturbs a run only makes it longer."""
    if not all(run.is_ok for run in runs) or runs[0].config.backend:
        return None
    plain, optimised = runs[1::2], runs[2::2]
    before, after = (min(run.execute_seconds for run in side) for side in (plain, optimised))
    if after < FACTOR * before or after < before + LEAST_SECONDS:
        return None
    symptom = Symptom(Outcome.PERF, Phase.EXECUTE, "slower", side="optimised")
    title = f"slower when optimised: {after:.3f} s of CPU time against {before:.3f} s"
    return Verdict(Outcome.PERF, Phase.EXECUTE, title, symptom, (plain[0], optimised[0]))
