"""Simpler values in inputs and weights: zeros, ones, small integers, one value throughout."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from corpus.values import Tensor
from reducer.move import EITHER, Hints, Move, Search
from reducer.order import size
from reducer.passes.dims import is_shape
from reducer.retype import change_tensors
from reducer.subject import Subject


def simplify_values(subject: Subject, hints: Hints) -> Search:
    """Every tensor at once, then each alone, by the simplest change that still fails."""
    for change in CHANGES:
        found = _changed(subject, _free(subject), change)
        if (
            found is not None
            and size(found) < size(subject)
            and (yield partial(_changed, subject, _free(subject), change))
        ):
            return found
    best = subject
    for name in _free(subject):
        for change in CHANGES:
            proposal = partial(_changed, best, (name,), change)
            found = proposal()
            if found is not None and size(found) < size(best) and (yield proposal):
                best = found
                break
    return best


def zero_values(subject: Subject, hints: Hints) -> Search:
    """All zeros before dims are looked at; not where a value is what is wrong."""
    proposal = partial(_changed, subject, _free(subject), _zeros)
    found = None if hints.witness else proposal()
    if found is not None and size(found) < size(subject) and (yield proposal):
        return found
    return subject


def _free(subject: Subject) -> tuple[str, ...]:
    """The tensors whose values are data, not dims or axes."""
    return tuple(name for name in subject.sources if not is_shape(subject, name))


def _changed(subject: Subject, names: tuple[str, ...], change: Callable[[Tensor], Tensor]) -> Subject | None:
    changed = {}
    for name in names:
        array = subject.array(name)
        if array is not None and array.size and array.dtype.kind not in "USO":
            changed[name] = change(np.asarray(array))
    return change_tensors(subject, changed) if changed else None


def _zeros(array: Tensor) -> Tensor:
    return np.zeros_like(array)


def _ones(array: Tensor) -> Tensor:
    return np.ones(array.shape, array.dtype)


def _splat(array: Tensor) -> Tensor:
    """The first value throughout."""
    return np.full(array.shape, array.flat[0], array.dtype)


def _small_integers(array: Tensor) -> Tensor:
    """Rounded away from zero and kept small; what is not finite stays."""
    if array.dtype.kind in "biu":
        return array
    wide = array.astype(np.float64)
    rounded = np.clip(np.copysign(np.ceil(np.abs(wide)), wide), -9, 9)
    return np.where(np.isfinite(wide), rounded, wide).astype(array.dtype)


CHANGES = (_zeros, _ones, _small_integers, _splat)

MOVES = (
    Move("zero values", 390, zero_values, reshapes=True, subjects=EITHER),
    Move("simplify values", 500, simplify_values, reshapes=True, subjects=EITHER),
)
