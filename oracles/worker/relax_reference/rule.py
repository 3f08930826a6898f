"""What the rules of the golden reference share: their table's type, axes, and which forms they leave out."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np

Rule = Callable[[Sequence[Any], Mapping[str, Any]], Any]
"""From a call's arguments and attributes to its result: an array, or a tuple of arrays."""

Rules = Dict[str, Rule]  # noqa: UP006 (Python 3.8)


class NotKnown(NotImplementedError):
    """An operator, or a form of it, that the reference does not speak."""


def plain(function: Callable[..., Any]) -> Rule:
    """A rule that has no attributes."""
    return lambda args, attrs: function(*args)


def is_float(array: Any) -> bool:
    """Say whether the elements are floats."""
    return bool(np.asarray(array).dtype.kind == "f")


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from the front."""
    return axis + rank if axis < 0 else axis


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """The axes counted from the front; all where none are told."""
    return tuple(range(rank)) if axes is None else tuple(axis_of(int(each), rank) for each in axes)


def element(name: str) -> Any:
    """The element type in which the reference holds values of a Relax dtype."""
    return np.dtype(np.float64) if name.startswith(("float", "bfloat")) else np.dtype(name)


def as_integer(array: Any, dtype: Any) -> Any:
    """Floats as C converts them, towards zero."""
    return np.trunc(array).astype(dtype) if is_float(array) else array.astype(dtype)
