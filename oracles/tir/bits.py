"""The same bits as another type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from corpus.tir.types import element, is_bool, is_float, numpy_dtype
from oracles.tir.scalars import UNDEFINED, NotModelled, Scalar


@cache
def reinterpreting(before: str, after: str) -> Callable[[Scalar], Scalar]:
    """Reinterpret one lane's bits as another type. The sign of a NaN is not defined, so its bits are open."""
    one, two = numpy_dtype(element(before)), numpy_dtype(element(after))
    if one is None or two is None or one.itemsize != two.itemsize or is_bool(before) or is_bool(after):
        raise NotModelled(f"reinterpret from {before} to {after}")

    def read(value: Scalar) -> Scalar:
        if is_float(before) and value != value:
            return UNDEFINED
        with np.errstate(all="ignore"):
            found = np.array(value, one).view(two)
        return float(found) if is_float(after) else int(found)

    return read
