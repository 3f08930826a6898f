"""The concrete types that programs are grown over: element types, tensor types and value ranges."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np

Shape = tuple[int, ...]


class DType(IntEnum):
    """An element type; the value is ONNX's own code."""

    F32 = 1
    U8 = 2
    I8 = 3
    U16 = 4
    I16 = 5
    I32 = 6
    I64 = 7
    BOOL = 9
    F16 = 10
    F64 = 11
    U32 = 12
    U64 = 13


F16, F32, F64, BOOL = DType.F16, DType.F32, DType.F64, DType.BOOL
I8, I16, I32, I64 = DType.I8, DType.I16, DType.I32, DType.I64
U8, U16, U32, U64 = DType.U8, DType.U16, DType.U32, DType.U64


FLOATS = (F32, F64, F16)
SIGNED = (I32, I64, I8, I16)
UNSIGNED = (U8, U32, U64, U16)
INTEGERS = SIGNED + UNSIGNED
NUMERIC = FLOATS + INTEGERS
ALL = (*NUMERIC, BOOL)

NUMPY: dict[DType, np.dtype] = {
    F16: np.dtype(np.float16),
    F32: np.dtype(np.float32),
    F64: np.dtype(np.float64),
    I8: np.dtype(np.int8),
    I16: np.dtype(np.int16),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
    U8: np.dtype(np.uint8),
    U16: np.dtype(np.uint16),
    U32: np.dtype(np.uint32),
    U64: np.dtype(np.uint64),
    BOOL: np.dtype(np.bool_),
}

OF_NUMPY = {kind: dtype for dtype, kind in NUMPY.items()}


class TensorType(NamedTuple):
    """An element type and a concrete shape."""

    dtype: DType
    shape: Shape


class Range(NamedTuple):
    """Bounds on every element of a tensor; `away` is the least magnitude that any element has."""

    low: float
    high: float
    away: float = 0.0

    def is_within(self, outer: Range) -> bool:
        return outer.low <= self.low and self.high <= outer.high and self.magnitude_floor >= outer.away

    @property
    def magnitude_floor(self) -> float:
        """The least magnitude that follows from the bounds and from `away`."""
        if self.low > 0 or self.high < 0:
            return max(self.away, min(abs(self.low), abs(self.high)))
        return self.away

    @property
    def magnitude(self) -> float:
        return max(abs(self.low), abs(self.high))


ANYTHING = Range(-math.inf, math.inf)
TRUTH = Range(0, 1)

_EXTENT: dict[DType, Range] = {
    dtype: Range(int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    for dtype, kind in NUMPY.items()
    if kind.kind in "iu"
}
# Floats stay well inside their finite range, so that rounding errors stay small beside the tolerances.
_EXTENT |= {BOOL: TRUTH, F16: Range(-2e3, 2e3), F32: Range(-1e6, 1e6), F64: Range(-1e9, 1e9)}


def extent(dtype: DType) -> Range:
    """Every integer that the type holds; for a float, the values that a program may compute."""
    return _EXTENT[dtype]


def is_float(dtype: DType) -> bool:
    return dtype in FLOATS


def broadcast(*shapes: Shape) -> Shape | None:
    """The multidirectional broadcast of the shapes, or None when they do not fit one another."""
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        offset = rank - len(shape)
        for axis, dim in enumerate(shape, offset):
            if dim != 1:
                if result[axis] not in (1, dim):
                    return None
                result[axis] = dim
    return tuple(result)
