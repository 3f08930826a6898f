"""Arithmetic on single values, exactly as each type has it; `UNDEFINED` is what nothing defines.

Integers are Python's, floats are Python's rounded to their type: for `+ - * /` of float32 that is what the
hardware gives, since float64 has more than twice its bits.

What is not exact by definition is in `ROUGH`: implementations may differ in the last bits of it, so the
interpreter puts noise of that size there. An intrinsic that is in neither table is not modelled.
"""

import ctypes
import math
import operator
import random
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from corpus.tir.forms import element, integer_range, is_bool, is_float, numpy_dtype, parts


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


def is_eight_bits(dtype: str) -> bool:
    """Whether it is a float of eight bits: TVM computes in a wider type, and rounds when it stores."""
    return dtype.startswith("float8")


@cache
def rounding(dtype: str) -> Callable[[float], Scalar]:
    """The function that rounds to a floating-point type; what eight bits do not hold is open."""
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
    most = float(ml_dtypes.finfo(kind).max) if is_eight_bits(name) else math.inf

    def rounded(value: float) -> Scalar:
        if abs(value) > most:
            return UNDEFINED
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
    rounded = rounding("float32" if is_eight_bits(dtype) else dtype)
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
    compute, whole = plain[op], rounding(dtype)
    return lambda a, b: whole(compute(a, b))


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


def without_operand(op: str, dtype: str) -> Callable[[Scalar], Scalar]:
    """What an operator gives where an operand is undefined, from the second one: undefined.

    A division of integers ends the program's definedness where the processor may trap.
    """
    if op not in _DIVISIONS or is_float(dtype):
        return lambda b: UNDEFINED

    def divided(b: Scalar) -> Scalar:
        if b is UNDEFINED or b in (0, -1):
            raise Undefined("an integer that nothing defines is divided, or is a divisor")
        return UNDEFINED

    return divided


@cache
def casting(before: str, after: str) -> Callable[[Scalar], Scalar]:
    """The function that takes one lane of a type to another type."""
    if is_bool(after):
        return lambda value: value != 0
    if is_float(after):
        rounded = rounding(after)
        # an integer with more bits than float64 is rounded twice: those are far beyond any test
        return lambda value: rounded(float(value))
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


def is_less_than_nothing(value: float) -> bool:
    """Whether it is -0.0: that is open, since TVM takes a product with zero for 0."""
    return value == 0 and math.copysign(1.0, value) < 0


@cache
def reinterpreting(before: str, after: str) -> Callable[[Scalar], Scalar]:
    """Reinterpret one lane's bits as another type. The signs of NaN and -0, and so their bits, are open."""
    one, two = numpy_dtype(element(before)), numpy_dtype(element(after))
    if one is None or two is None or one.itemsize != two.itemsize or is_bool(before) or is_bool(after):
        raise NotModelled(f"reinterpret from {before} to {after}")

    def read(value: Scalar) -> Scalar:
        if is_float(before) and (value != value or is_less_than_nothing(value)):
            return UNDEFINED
        with np.errstate(all="ignore"):
            found = np.array(value, one).view(two)
        return float(found) if is_float(after) else int(found)

    return read


def _guarded(function: Callable[..., float]) -> Callable[..., float]:
    """Guard a function as C does: a domain error is NaN, an overflow infinite."""

    def guarded(*operands: float) -> float:
        try:
            return function(*operands)
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return math.nan

    return guarded


def _by_numpy(function: Callable[..., Any]) -> Callable[..., float]:
    """numpy has the right infinities and NaNs where Python's math raises."""

    def computed(*operands: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(np.float64, operands)))

    return computed


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0


_NUMPYS_TEXT = """
    exp exp2 log log2 log10 log1p tan cos sin cosh sinh tanh hypot
"""
_NUMPYS = _NUMPYS_TEXT.split()
_INVERSE = ["sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2"]
"""Functions that numpy has by TVM's names, and those that it calls `arcsin` where TVM says `asin`."""

ROUGH: Final[dict[str, Callable[..., float]]] = {
    **{name: _by_numpy(getattr(np, name)) for name in _NUMPYS},
    **{f"a{name}": _by_numpy(getattr(np, f"arc{name}")) for name in _INVERSE},
    "pow": _by_numpy(np.power),
    "exp10": _by_numpy(lambda x: np.power(10.0, x)),
    "rsqrt": _by_numpy(lambda x: 1.0 / np.sqrt(x)),
    "erf": _guarded(math.erf),
    "sigmoid": _guarded(_sigmoid),
    "fma": _by_numpy(lambda a, b, c: a * b + c),
}

EXACT: Final[dict[str, Callable[..., float]]] = {
    "sqrt": _by_numpy(np.sqrt),
    "fabs": abs,
    "floor": _by_numpy(np.floor),
    "ceil": _by_numpy(np.ceil),
    "trunc": _by_numpy(np.trunc),
    "nearbyint": _by_numpy(np.rint),
    "fmod": _by_numpy(np.fmod),
}


def _round(value: float) -> Scalar:
    """Halves are left open: TVM's documents do not say where they go, and its code generators differ."""
    if not math.isfinite(value):
        return value
    return UNDEFINED if abs(value) % 1.0 == 0.5 else math.copysign(math.floor(abs(value) + 0.5), value)


def _copysign(_: str, value: float, sign: float) -> Scalar:
    if sign != sign or is_less_than_nothing(sign):
        return UNDEFINED
    return math.copysign(value, sign)


def _nextafter(dtype: str, a: float, b: float) -> float:
    kind = numpy_dtype(dtype)
    assert kind is not None
    with np.errstate(all="ignore"):
        return float(np.nextafter(kind.type(a), kind.type(b)))


def _clz(dtype: str, value: int) -> Scalar:
    bits = parts(dtype).bits
    return bits - (value & ((1 << bits) - 1)).bit_length() if value else UNDEFINED


def _popcount(dtype: str, value: int) -> int:
    return (value & ((1 << parts(dtype).bits) - 1)).bit_count()


def _ldexp(_: str, value: float, power: int) -> float:
    with np.errstate(all="ignore"):
        return float(np.ldexp(np.float64(value), power))


TYPED: Final[dict[str, Callable[..., Scalar]]] = {
    "copysign": _copysign,
    "nextafter": _nextafter,
    "clz": _clz,
    "popcount": _popcount,
    "cuda.ffs_u32": lambda _, value: (value & -value).bit_length(),
    "round": lambda _, value: _round(value),
    "isnan": lambda _, value: value != value,
    "isinf": lambda _, value: isinstance(value, float) and math.isinf(value),
    "isfinite": lambda _, value: not isinstance(value, float) or math.isfinite(value),
    "ldexp": _ldexp,
    "likely": lambda _, value: value,
    "ignore_loop_partition": lambda _, value: value,
}
"""Functions that are told the type of their first operand; they are exact."""

NOISE: Final = {"float64": 2.0**-45, "float32": 2.0**-20, "float16": 2.0**-9, "bfloat16": 2.0**-6}
"""The relative size of noise on a rough result."""


FROM_ONE: Final = frozenset(("atanh", "asinh", "acosh", "log1p", "sinh"))
"""What is computed by way of numbers near 1 or above, as `atanh` by log((1 + x) / (1 - x)).

All that is left of a small result is the rounding of those.
"""


class Noise(random.Random):
    """One way in which rough results may be off: all are larger, all are smaller, or each by chance."""

    def __init__(self, trial: int) -> None:
        super().__init__(trial)
        self.signs = (1.0,) if trial == 0 else (-1.0,) if trial == 1 else (1.0, -1.0)


def noisy(value: Scalar, dtype: str, noise: Noise, callee: str = "") -> Scalar:
    """The value moved a little, one way or the other, by no amount that another one takes back."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    size = noise.choice(noise.signs) * noise.uniform(0.5, 1.0) * NOISE.get(dtype, 2.0**-2)
    return value + size if callee in FROM_ONE and abs(value) < 1.0 else value * (1.0 + size)
