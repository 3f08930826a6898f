"""Bringing a value into bounds by operators whose own types are the same."""

from __future__ import annotations

import numpy as np

from generators.relax.frame import Frame, Known
from generators.relax.making import Making
from generators.relax.operator import Within
from generators.relax.types import BOOL, Tensor


def guarded(growth: Making, frame: Frame, found: Known, target: Tensor, within: Within) -> Known:
    """Return the value brought into the bounds: an index by a remainder, other numbers by clipping."""
    if within.low is not None or within.high is not None:
        is_index = not target.is_float and within.low == 0 and within.high is not None
        if is_index and growth.draws.chance(0.5):
            found = _remainder(growth, frame, found, target, int(within.high or 0) + 1)
        else:
            found = _clipped(growth, frame, found, target, within)
    return _not_zero(growth, frame, found, target) if within.is_nonzero else found


def _scalar(growth: Making, value: float, dtype: str) -> dict[str, str]:
    return {"ref": growth.constant(np.array(value).astype(dtype)).name}


def _remainder(growth: Making, frame: Frame, found: Known, target: Tensor, count: int) -> Known:
    args = [{"ref": found.name}, _scalar(growth, count, target.dtype)]
    return growth.bind(frame, "relax.floor_mod", args, target)


def _clipped(growth: Making, frame: Frame, found: Known, target: Tensor, within: Within) -> Known:
    for op, bound in (("relax.maximum", within.low), ("relax.minimum", within.high)):
        if bound is not None:
            args = [{"ref": found.name}, _scalar(growth, bound, target.dtype)]
            found = growth.bind(frame, op, args, target)
    return found


def _not_zero(growth: Making, frame: Frame, found: Known, target: Tensor) -> Known:
    """Replace values near zero by one."""
    size = found
    if target.is_float or not target.dtype.startswith("u"):
        size = growth.bind(frame, "relax.abs", [{"ref": found.name}], target)
    limit = _scalar(growth, 0.25 if target.is_float else 1, target.dtype)
    small = growth.bind(frame, "relax.less", [{"ref": size.name}, limit], target.of(BOOL))
    one = _scalar(growth, 1, target.dtype)
    return growth.bind(frame, "relax.where", [{"ref": small.name}, one, {"ref": found.name}], target)
