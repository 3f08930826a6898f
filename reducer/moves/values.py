"""Simpler values in inputs and weights: zeros, ones, small integers, one value throughout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np

from corpus.values import Tensor
from oracles.numerics.left_open import is_scale
from oracles.operators import arithmetic_of
from reducer.move import Hints, Move, Search
from reducer.subject.base import NodeSubject
from reducer.subject.order import size
from reducer.subject.tensors import farthest, real_parts

Change: TypeAlias = Callable[[Tensor], Tensor]


def simplify_values(subject: NodeSubject, hints: Hints) -> Search:
    """Every tensor at once, then each alone, by the simplest change that still fails."""
    for change in ALIKE:
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


def zero_values(subject: NodeSubject, hints: Hints) -> Search:
    """All zeros before dims are looked at; not where a value is what is wrong."""
    proposal = partial(_changed, subject, _free(subject), _zeros)
    found = None if hints.witness else proposal()
    if found is not None and size(found) < size(subject) and (yield proposal):
        return found
    return subject


def _free(subject: NodeSubject) -> tuple[str, ...]:
    """Return the tensors whose values are data, not dims or axes."""
    return tuple(name for name in subject.sources if not subject.is_shape(name))


def _changed(subject: NodeSubject, names: tuple[str, ...], change: Change) -> NodeSubject | None:
    changed = {}
    scales = {
        node.input[1] for node in subject.nodes if arithmetic_of(node).has_scale and len(node.input) > 1
    }
    for name in names:
        array = subject.array(name)
        if array is None or not array.size:
            continue
        if array.dtype.kind not in "USO":
            changed[name] = change(np.asarray(array))
            if name in scales and is_scale(array) and not is_scale(changed[name]):
                changed[name] = _ones(array)  # what nothing is quantised by, no bug needs
        elif change in TEXTS:
            changed[name] = np.full(array.shape, TEXTS[change], dtype=object)
    return subject.with_tensors(changed) if changed else None


def _zeros(array: Tensor) -> Tensor:
    return np.zeros_like(array)


def _ones(array: Tensor) -> Tensor:
    return np.ones(array.shape, array.dtype)


def _splat(array: Tensor) -> Tensor:
    """Return the first value throughout."""
    return np.full(array.shape, array.flat[0], array.dtype)


def _small_integers(array: Tensor) -> Tensor:
    """Rounded away from zero and kept small; what is not finite stays."""
    return _rounded(array, 9)


def _rounded(array: Tensor, most: float) -> Tensor:
    if array.dtype.kind in "biu":
        return array
    if array.dtype.kind == "c":
        made: Tensor = _rounded(real_parts(array), most).view(array.dtype).reshape(array.shape)
        return made
    wide = array.astype(np.float64)
    rounded = np.clip(np.copysign(np.ceil(np.abs(wide)), wide), -most, most)
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(wide), rounded, wide).astype(array.dtype)


def _integers(array: Tensor) -> Tensor:
    """Rounded away from zero; what is not finite or has no digits behind the point stays."""
    return _rounded(array, np.inf)


def _extreme(array: Tensor) -> Tensor:
    """Return an array filled with the value farthest from zero, or with NaN if the array holds one."""
    return np.full(array.shape, array.flat[farthest(array)], array.dtype)


TEXTS: Mapping[Change, str] = {_zeros: "", _ones: "a"}
"""Of texts, what zero and one are of numbers."""

ALIKE = (_zeros, _ones, _small_integers, _splat)
"""What is tried on all tensors at once."""

CHANGES = (*ALIKE, _extreme, _integers)

MOVES = (
    Move("zero values", 390, zero_values, reshapes=True, on=NodeSubject),
    Move("simplify values", 500, simplify_values, reshapes=True, on=NodeSubject),
)
