"""The types of expressions, as TVM spells them: `int32`, `float32x4`, `bool`, `void`, `handle`,
`ptr:float32:global`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

_SCALAR = re.compile(
    r"(bool|void|handle|uint\d+|int\d+|bfloat16|float\d+(?:_e\d+m\d+\w*)?)(?:x([1-9]\d*))?\Z"
)
_WIDTHS = re.compile(r"\d+")
_SMALL = ("float8_", "float6_", "float4_")

INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})


class Type(NamedTuple):
    """A type's parts: `code` is int, uint, float, bool, void, handle or pointer."""

    code: str
    bits: int
    lanes: int


@cache
def parts(dtype: str) -> Type:
    """Split a type into its parts; ValueError for a text that names none."""
    if dtype.startswith("ptr:"):
        element = dtype.split(":")[1]
        parts(element)
        return Type("pointer", 64, 1)
    found = _SCALAR.match(dtype)
    if not found:
        raise ValueError(f"type {dtype[:40]!r} is not known")
    name, lanes = found[1], int(found[2] or 1)
    if name in ("bool", "void", "handle"):
        return Type(name, {"bool": 1, "void": 0, "handle": 64}[name], lanes)
    width = _WIDTHS.search(name)
    code = "float" if "float" in name else name.rstrip("0123456789")
    return Type(code, int(width[0]) if width else 0, lanes)


def element(dtype: str) -> str:
    """A vector's type of one lane."""
    found = _SCALAR.match(dtype)
    return found[1] if found else dtype


def lanes(dtype: str) -> int:
    """The number of lanes of a type; 1 for a scalar."""
    return parts(dtype).lanes


def with_lanes(dtype: str, count: int) -> str:
    """The type with that many lanes."""
    return element(dtype) if count == 1 else f"{element(dtype)}x{count}"


def is_integer(dtype: str) -> bool:
    """Whether it is a signed or unsigned integer, or a vector of these."""
    return parts(dtype).code in ("int", "uint")


def is_float(dtype: str) -> bool:
    """Whether it is a floating-point type, or a vector of these."""
    return parts(dtype).code == "float"


def is_bool(dtype: str) -> bool:
    """Whether it is a truth value, or a vector of these."""
    return parts(dtype).code == "bool"


def is_number(dtype: str) -> bool:
    """Whether arithmetic is defined on it."""
    return parts(dtype).code in ("int", "uint", "float")


def is_pointer(dtype: str) -> bool:
    """Whether it is an address."""
    return parts(dtype).code in ("pointer", "handle")


def pointer_to(dtype: str, scope: str = "global") -> str:
    """The type of addresses of such elements."""
    return f"ptr:{dtype}:{scope}"


@cache
def numpy_dtype(dtype: str) -> np.dtype[Any] | None:
    """numpy's or ml_dtypes' type of one lane; None where neither has it."""
    name = element(dtype)
    if name.startswith(("bfloat", *_SMALL)) or name in ("int4", "uint4", "int2", "uint2"):
        found = getattr(ml_dtypes, name, None)
        return np.dtype(found) if found is not None else None
    try:
        kind = np.dtype(name)
    except TypeError:
        return None
    return kind if kind.kind in "biuf" else None


def integer_range(dtype: str) -> tuple[int, int]:
    """The least and the greatest value of an integer or boolean type."""
    code, bits, _ = parts(dtype)
    if code == "int":
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1
