"""Arithmetic on single values, exactly as each type has it; `UNDEFINED` is what nothing defines.

Integers are Python's, floats are Python's rounded to their type: for `+ - * /` of float32 that is what the
hardware gives, since float64 has more than twice its bits.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np

from corpus.tir.types import element, integer_range, is_bool, is_float, numpy_dtype, parts


class Undefined(Exception):
    """The end of definedness: nothing after it counts; the text says why."""


class NotModelled(Exception):
    """The interpreter does not know this; the text names it."""


class _Nothing:
    """The value that nothing defines."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED: Final = _Nothing()
Scalar: TypeAlias = Any
"""An int, a float, a bool, or `UNDEFINED`."""

Operation: TypeAlias = Callable[[Scalar, Scalar], Scalar]


@cache
def rounding(dtype: str) -> Callable[[float], float]:
    """The function that rounds to a floating-point type."""
    name = element(dtype)
    if name == "float64":
        return float
    if name == "float32":
        single = ctypes.c_float
        return lambda value: single(value).value
    kind = numpy_dtype(name)
    if kind is None:
        raise NotModelled(f"the type {name}")
    make = kind.type

    def rounded(value: float) -> float:
        with np.errstate(all="ignore"):
            return float(make(value))

    return rounded


@cache
def wrapping(dtype: str) -> Callable[[int], int]:
    """The function that takes an integer into a type's range by dropping bits."""
    least, most = integer_range(element(dtype))
    span = most - least + 1
    return lambda value: (value - least) % span + least


@cache
def checking(dtype: str) -> Callable[[int], Scalar]:
    """Make the check of an arithmetic result: unsigned integers wrap, signed overflow is undefined."""
    least, most = integer_range(element(dtype))
    if parts(dtype).code == "uint":
        return lambda value: value & most
    return lambda value: value if least <= value <= most else UNDEFINED


@cache
def binary(op: str, dtype: str) -> Operation:
    """The function of an operator on one lane of operands of a type."""
    if op in _COMPARISONS:
        return _comparison(op, is_float(dtype))
    if op in ("and", "or"):
        return operator.and_ if op == "and" else operator.or_
    if is_float(dtype):
        return _float_operation(op, dtype)
    return _integer_operation(op, dtype)


_COMPARISONS: Final[dict[str, Operation]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _comparison(op: str, floats: bool) -> Operation:
    """An order that NaN takes part in is left open: TVM turns comparisons around."""
    compare = _COMPARISONS[op]
    if not floats or op in ("eq", "ne"):
        return compare
    return lambda a, b: compare(a, b) if a == a and b == b else UNDEFINED


def _float_operation(op: str, dtype: str) -> Operation:
    rounded = rounding(dtype)
    if op in ("min", "max"):
        choose = min if op == "min" else max
        return lambda a, b: choose(a, b) if a == a and b == b else UNDEFINED
    plain: dict[str, Operation] = {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": _quotient,
        "mod": _remainder,
        "floordiv": lambda a, b: _floor(rounded(_quotient(a, b))),
        "floormod": lambda a, b: a - rounded(_floor(rounded(_quotient(a, b))) * b),
    }
    if op not in plain:
        raise NotModelled(f"{op} of {dtype}")
    compute = plain[op]
    return lambda a, b: rounded(compute(a, b))


def _quotient(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _remainder(a: float, b: float) -> float:
    return math.fmod(a, b) if b != 0 and math.isfinite(a) else math.nan


def _floor(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) else value


def _integer_operation(op: str, dtype: str) -> Operation:
    checked = checking(dtype)
    bits = parts(dtype).bits
    if op in ("min", "max"):
        return min if op == "min" else max
    if op in ("bitand", "bitor", "bitxor"):
        return {"bitand": operator.and_, "bitor": operator.or_, "bitxor": operator.xor}[op]
    if op in ("shl", "shr"):
        shift = operator.lshift if op == "shl" else operator.rshift
        return lambda a, b: checked(shift(a, b)) if 0 <= b < bits else UNDEFINED
    if op in _DIVISIONS:
        divide = _DIVISIONS[op]
        return lambda a, b: _divided(divide, a, b, checked)
    plain = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}[op]
    return lambda a, b: checked(plain(a, b))


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_DIVISIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "div": _truncated,
    "mod": lambda a, b: a - _truncated(a, b) * b,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
}


def _divided(divide: Callable[[int, int], int], a: int, b: int, checked: Callable[[int], Scalar]) -> Scalar:
    if b == 0:
        raise Undefined("an integer is divided by zero")
    if checked(_truncated(a, b)) is UNDEFINED:
        raise Undefined("the least integer is divided by -1")
    return divide(a, b)


@cache
def casting(before: str, after: str) -> Callable[[Scalar], Scalar]:
    """The function that takes one lane of a type to another type."""
    if is_bool(after):
        return lambda value: value != 0
    if is_float(after):
        rounded = rounding(after)
        return lambda value: rounded(_as_float(value))
    if not is_float(before):
        wrapped = wrapping(after)
        return lambda value: wrapped(int(value))
    least, most = integer_range(element(after))

    def to_integer(value: float) -> Scalar:
        if not math.isfinite(value):
            return UNDEFINED
        whole = math.trunc(value)
        return whole if least <= whole <= most else UNDEFINED

    return to_integer


def _as_float(value: float) -> float:
    """An integer rounded once at most where it has more bits than float64: those are far beyond any test."""
    return float(value)


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
