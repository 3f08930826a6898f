"""Which of two differing results is wrong: the one that is clearly further from the truth in float64.

An independent implementation runs what was written. If it does as the framework does, the target has written
another program than it was given; if it gives what the target's own baseline gives, the framework is wrong.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpus.values import Tensor, Value, is_float, widen
from oracles.numerics.compare import Difference, Tolerance, compare_outputs, distance, part_of
from oracles.numerics.input_noise import GREATEST, element_of
from oracles.probes.context import Truth
from oracles.verdict import Mark, Notes, Outcome, Phase, Run, Verdict

OPTIMISED, UN_OPTIMISED, NEITHER = "optimised", "un-optimised", "neither"

CLEAR = 4.0
"""How many times further from the truth than the other a result must be to be the wrong one."""

CLEAR_IF_SMALL = 30.0
"""The same for the worst elements of a difference as small as those that rounding makes."""

NEAR = 2.0
"""A truth tells nothing if it is further from both results than this many times their distance."""

ENOUGH = 0.5
"""The share of the elements told of that must speak against a side."""

PRESUMED = "the wrong side is presumed: no other implementation gives a value to compare"


@dataclass(frozen=True, slots=True)
class Judgement:
    """`side` is `optimised`, `un-optimised`, or `neither` where both are about as far from the truth.

    `errors` are the greatest distances from it, of the un-optimised result and of the other; `truth` says
    whose it is, and is empty where the side is only presumed.
    """

    side: str
    truth: str = ""
    errors: tuple[float, float] | None = None

    @property
    def note(self) -> str:
        """Say for a person how the wrong side was found."""
        if self.errors is None:
            return "" if self.truth else PRESUMED
        if not np.isfinite(self.errors).all():
            return ""
        words = "against {}, the optimised result is off by up to {:.3g}, the un-optimised by {:.3g}".format(
            self.truth, *self.errors[::-1]
        )
        near, far = sorted(self.errors)
        return f"{words} ({far / near:,.3g} times further)" if near > 0 and np.isfinite(far) else words


def judge_sides(difference: Difference, expected: Value, actual: Value, truths: Iterable[Truth]) -> Judgement:
    """Judge by the first true value that tells; `neither` if no truth confirms the differences.

    Optimisation is what may change a result, so the optimised side is presumed to be wrong. It must not
    matter whether a truth can be had: an implementation often runs a small case and not the large one that it
    was reduced from, and both show the same symptom.
    """
    found = next(_judgements(difference, expected, actual, truths), None)
    if difference.is_small:
        truth = found.truth if found is not None else ""
        return found if found is not None and _is_confirmed(found) else Judgement(NEITHER, truth)
    if found is not None:
        return found
    if difference.untold:
        return Judgement(NEITHER)
    if difference.kind == "dtype":
        # an un-optimised result is of the declared type, to which the reference evaluator does not keep
        return Judgement(OPTIMISED, "the declared type")
    if difference.mask is not None and difference.unconfirmed is not None:
        is_all_unconfirmed = bool(difference.unconfirmed[difference.mask].all())
        return Judgement(NEITHER if is_all_unconfirmed else OPTIMISED)
    return Judgement(OPTIMISED)


def _is_confirmed(found: Judgement) -> bool:
    """Whether the optimised side of a small difference is much further from the truth."""
    if found.side != OPTIMISED or found.errors is None:
        return False
    of_baseline, of_other = found.errors
    return of_other > CLEAR_IF_SMALL * of_baseline


def _judgements(
    difference: Difference, expected: Value, actual: Value, truths: Iterable[Truth]
) -> Iterator[Judgement]:
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return
    for truth in truths if difference.kind in ("shape", "nan", "value") else ():
        value = part_of(truth.outputs, difference.output)
        if not isinstance(value, np.ndarray):
            continue
        if difference.kind == "shape":
            found = _by_shape(truth, value, expected, actual)
        else:
            found = _by_values(truth, value, expected, actual, difference)
        if found is not None:
            yield found


def _by_shape(truth: Truth, value: Tensor, expected: Tensor, actual: Tensor) -> Judgement | None:
    if value.shape not in (expected.shape, actual.shape):
        return None
    return Judgement(OPTIMISED if value.shape == expected.shape else UN_OPTIMISED, truth.source)


def _by_values(
    truth: Truth, value: Tensor, expected: Tensor, actual: Tensor, difference: Difference
) -> Judgement | None:
    if value.shape != expected.shape or (value.dtype.kind in "USOT") != (expected.dtype.kind in "USOT"):
        return None
    mask = difference.mask if difference.mask is not None else np.ones(expected.shape, bool)
    apart, of_other = _distance(expected, actual)[mask], _distance(value, actual)[mask]
    of_baseline = distance(value, expected)[mask]
    with np.errstate(over="ignore"):  # values near the largest there is lie apart without bound
        tells = np.minimum(of_baseline, of_other) <= NEAR * apart
    tells &= np.isfinite(np.minimum(of_baseline, of_other))
    if difference.unconfirmed is not None:
        tells &= ~difference.unconfirmed[mask] | (of_baseline == 0)
    if 2 * np.count_nonzero(tells) < tells.size:
        return None
    of_baseline, of_other = of_baseline[tells], of_other[tells]
    if difference.is_small:  # an element at which the un-optimised result is right by chance tells little
        everywhere = distance(value, expected)
        of_baseline = np.full_like(of_baseline, everywhere[np.isfinite(everywhere)].max(initial=0.0))
    return Judgement(
        _side(of_baseline, of_other), truth.source, (float(of_baseline.max()), float(of_other.max()))
    )


def _distance(left: Tensor, right: Tensor) -> NDArray[np.float64]:
    """The distance of two tensors; beside finite values an infinity counts as the type's greatest.

    A value at the end of the range may round to infinity, which is no great error.
    """
    if not is_float(left) or not is_float(right) or left.dtype.kind == "c":
        return distance(left, right)
    narrow = right if right.dtype.itemsize <= left.dtype.itemsize else left
    most = GREATEST.get(element_of(narrow.dtype) or 0)
    if most is None:
        return distance(left, right)
    pair = [widen(each).astype(np.float64) for each in (left, right)]
    is_mixed = np.isfinite(pair[0]) != np.isfinite(pair[1])
    is_mixed &= ~np.isnan(pair[0]) & ~np.isnan(pair[1])
    held = [np.where(is_mixed, np.clip(each, -most, most), each) for each in pair]
    return distance(held[0], held[1])


def _side(of_baseline: Tensor, of_other: Tensor) -> str:
    with np.errstate(over="ignore"):
        against_other = float((of_other > CLEAR * of_baseline).mean())
        against_baseline = float((of_baseline > CLEAR * of_other).mean())
    if max(against_other, against_baseline) < ENOUGH:
        return NEITHER
    return OPTIMISED if against_other >= against_baseline else UN_OPTIMISED


def is_wrong_for_sure(verdict: Verdict) -> bool:
    """Whether the side that is held against the un-optimised one is wrong, and somebody else says so."""
    wrong = verdict.wrong
    return wrong is not None and wrong.side == OPTIMISED and not wrong.is_presumed


WRITTEN = "what was exported is at fault"
RUNNER = "what runs the exported model is at fault, not the exporter"


def is_exported(verdict: Verdict) -> bool:
    """Whether a failure came after the program had been written: then either may be wrong."""
    failing = verdict.runs[-1] if len(verdict.runs) > 1 else None
    is_told = verdict.outcome in (Outcome.MISMATCH, Outcome.EXCEPTION, Outcome.CRASH)
    return failing is not None and is_told and (failing.is_ok or failing.phase is Phase.EXECUTE)


def say_whose(verdict: Verdict, independent: Run, tolerance: Tolerance) -> Notes:
    """Say in a note which of the two is wrong, by the run of an independent implementation."""
    baseline, failing = verdict.runs[0], verdict.runs[-1]
    notes, who = Notes(), independent.config.label.rpartition("by ")[2]
    if not independent.is_ok:
        if failing.is_ok:
            notes.add(f"{who} does not run the exported model ({independent.error}): it does not decide")
        else:
            first = independent.message.strip().split("\n")[0][:160]
            notes.add(f"{WRITTEN}: {who} does not run it either ({independent.error}: {first})")
    elif failing.is_ok and _agree(independent, failing, tolerance):
        notes.add(f"{WRITTEN}: {who} gives the same for it")
    elif _agree(independent, baseline, tolerance):
        notes.add(f"{RUNNER}: {who} runs it, and gives what the module gives", Mark.ELSEWHERE)
    else:
        notes.add(f"{who} gives a third result for the exported model: it does not decide")
    return notes


def _agree(one: Run, other: Run, tolerance: Tolerance) -> bool:
    return compare_outputs(one.outputs, other.outputs, tolerance) is None
