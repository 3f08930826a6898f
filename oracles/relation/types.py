"""The concrete types that programs are grown over: element types, tensor types and value ranges."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import ml_dtypes
import numpy as np

from corpus.onnx.types import DTYPES
from corpus.values import Tensor

Shape = tuple[int, ...]


_SEQUENCE, _OPTIONAL = 100, 200


class DType(IntEnum):
    """An element type; the value is ONNX's own code.

    A sequence or an optional of tensors is a type of its own; its shape is (count, *shape of each element) or
    that of the tensor inside.
    """

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
    TEXT = 8
    BF16 = 16
    F8E4M3FN = 17
    F8E4M3FNUZ = 18
    F8E5M2 = 19
    F8E5M2FNUZ = 20
    U4 = 21
    I4 = 22
    SEQUENCE_F32 = 101
    SEQUENCE_I32 = 106
    SEQUENCE_I64 = 107
    SEQUENCE_TEXT = 108
    SEQUENCE_BOOL = 109
    SEQUENCE_F16 = 110
    SEQUENCE_F64 = 111
    OPTIONAL_F32 = 201
    OPTIONAL_I32 = 206
    OPTIONAL_I64 = 207
    OPTIONAL_BOOL = 209
    OPTIONAL_F64 = 211


F16, F32, F64, BOOL = DType.F16, DType.F32, DType.F64, DType.BOOL
I8, I16, I32, I64 = DType.I8, DType.I16, DType.I32, DType.I64
U8, U16, U32, U64 = DType.U8, DType.U16, DType.U32, DType.U64


TEXT, BF16, U4, I4 = DType.TEXT, DType.BF16, DType.U4, DType.I4

FLOATS = (F32, F64, F16)
SIGNED = (I32, I64, I8, I16)
UNSIGNED = (U8, U32, U64, U16)
INTEGERS = SIGNED + UNSIGNED
NUMERIC = FLOATS + INTEGERS
ALL = (*NUMERIC, BOOL)
FLOAT8 = (DType.F8E4M3FN, DType.F8E4M3FNUZ, DType.F8E5M2, DType.F8E5M2FNUZ)
INT4 = (U4, I4)
NARROW = (BF16, *FLOAT8, *INT4)
"""What numpy lacks; few operators take them."""
MOVED = (*ALL, TEXT, BF16)
"""What most operators that only move elements take."""
SEQUENCES = tuple(dtype for dtype in DType if _SEQUENCE < dtype < _OPTIONAL)
OPTIONALS = tuple(dtype for dtype in DType if dtype > _OPTIONAL)
TENSORS = tuple(dtype for dtype in DType if dtype < _SEQUENCE)

NUMPY: dict[DType, np.dtype] = {dtype: DTYPES[int(dtype)] for dtype in TENSORS}

_OF_NUMPY = {kind: dtype for dtype, kind in NUMPY.items()}


def dtype_of(array: Tensor) -> DType:
    """The element type of an array."""
    return TEXT if array.dtype.kind in "UO" else _OF_NUMPY[array.dtype]


def element(dtype: DType) -> DType:
    """The element of a sequence or an optional; any other type itself."""
    return DType(int(dtype) % 100)


def sequence_of(dtype: DType) -> DType | None:
    """Return None where no sequence of it is grown."""
    return DType(dtype + _SEQUENCE) if dtype + _SEQUENCE in _CODES else None


def optional_of(dtype: DType) -> DType | None:
    """Return None where no optional of it is grown."""
    return DType(dtype + _OPTIONAL) if dtype + _OPTIONAL in _CODES else None


_CODES = frozenset(map(int, DType))


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
        """Whether every value of it is allowed by another range."""
        return outer.low <= self.low and self.high <= outer.high and self.magnitude_floor >= outer.away

    @property
    def magnitude_floor(self) -> float:
        """The least magnitude that follows from the bounds and from `away`."""
        if self.low > 0 or self.high < 0:
            return max(self.away, min(abs(self.low), abs(self.high)))
        return self.away

    @property
    def magnitude(self) -> float:
        """The greatest distance from 0."""
        return max(abs(self.low), abs(self.high))


ANYTHING = Range(-math.inf, math.inf)
TRUTH = Range(0, 1)

_EXTENT: dict[DType, Range] = {
    dtype: Range(int(ml_dtypes.iinfo(NUMPY[dtype]).min), int(ml_dtypes.iinfo(NUMPY[dtype]).max))
    for dtype in (*INTEGERS, *INT4)
}
# Floats stay well inside their finite range, so that rounding errors stay small beside the tolerances.
_EXTENT |= {BOOL: TRUTH, F16: Range(-2e3, 2e3), F32: Range(-1e6, 1e6), F64: Range(-1e9, 1e9)}
_EXTENT |= {BF16: Range(-1e6, 1e6), TEXT: ANYTHING, **dict.fromkeys(FLOAT8, Range(-200, 200))}
_EXTENT |= {dtype: _EXTENT[element(dtype)] for dtype in (*SEQUENCES, *OPTIONALS)}
_FLOATING = frozenset((*FLOATS, BF16, *FLOAT8))


def extent(dtype: DType) -> Range:
    """Every integer that the type holds; for a float, the values that a program may compute.

    Of text, the numbers that it may spell: anything, where it need not spell one.
    """
    return _EXTENT[dtype]


def is_float(dtype: DType) -> bool:
    """Whether it is a floating-point type."""
    return dtype in _FLOATING


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


def is_filled(shape: Shape) -> bool:
    """Whether there are elements."""
    return 0 not in shape


def replaced(shape: Shape, axis: int, *dims: int) -> Shape:
    """The shape with other dims in place of one."""
    return (*shape[:axis], *dims, *shape[axis + 1 :])
