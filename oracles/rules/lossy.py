"""Lossy: no rule compares values after a pass that gives other results by design, such as mixed precision.

What such a program raises, or which shapes it gives, counts all the same: rules before this one ask for that.
"""

from corpus.case import Case
from oracles.backends import find_backend
from oracles.numerics.compare import compare_outputs
from oracles.probes.context import Context
from oracles.verdict import Outcome, Phase, Run, Verdict

ORDER = 52


def judge(case: Case, runs: tuple[Run, ...], context: Context) -> Verdict | None:
    """A pass, where every run ends well and its results are of the right shapes and dtypes."""
    sequences = find_backend(case.target.backend).sequences if case.target is not None else None
    lossy = sequences.lossy.intersection(case.passes) if sequences is not None else frozenset()
    if not lossy or not all(run.is_ok for run in runs):
        return None
    for run in runs[1:]:
        difference = compare_outputs(runs[0].outputs, run.outputs, context.screen)
        if difference is not None and difference.kind in ("shape", "dtype", "presence"):
            return None
    note = f"left open: {' and '.join(sorted(lossy))} gives other results by design"
    return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs, notes=(note,))
