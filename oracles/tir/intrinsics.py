"""The intrinsics that the interpreter knows: one function each, on one lane.

What is not exact by definition is in `ROUGH`: implementations may differ in the last bits of it, so the
interpreter puts noise of that size there. An intrinsic that is in neither table is not modelled.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from corpus.tir.types import numpy_dtype, parts
from oracles.tir.scalars import UNDEFINED, Scalar


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


_NUMPYS = [
    "exp",
    "exp2",
    "log",
    "log2",
    "log10",
    "log1p",
    "tan",
    "cos",
    "sin",
    "cosh",
    "sinh",
    "tanh",
    "hypot",
]
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
    "copysign": _by_numpy(np.copysign),
    "fmod": _by_numpy(np.fmod),
}


def _round(value: float) -> Scalar:
    """Halves are left open: TVM's documents do not say where they go, and its code generators differ."""
    if not math.isfinite(value):
        return value
    return UNDEFINED if abs(value) % 1.0 == 0.5 else math.copysign(math.floor(abs(value) + 0.5), value)


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


def noisy(value: Scalar, dtype: str, noise: random.Random, callee: str = "") -> Scalar:
    """The value moved a little, one way or the other, by no amount that another one takes back."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    size = noise.choice((-1.0, 1.0)) * noise.uniform(0.5, 1.0) * NOISE.get(dtype, 2.0**-2)
    return value + size if callee in FROM_ONE and abs(value) < 1.0 else value * (1.0 + size)
