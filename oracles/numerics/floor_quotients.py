"""The floor of a quotient, told exactly: which of two results is wrong where their operands are equal.

Rounding moves an operand, and so a quotient that lies near a whole number to the other side of it. It excuses
no step to another whole number where the quotient lies clear of one, nor where no operand was rounded.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from corpus.graphs.program import REF, Binding, Json
from corpus.values import Tensor, Value, is_float, widen
from oracles.numerics.compare import Mask
from oracles.numerics.input_noise import EPSILON, NOISE_ULPS, element_of

MOST_ELEMENTS = 4096
"""So many elements that differ are looked at: their quotients are computed as fractions."""

_FLOORED = re.compile(r"(^|\.)(_*floor_?div(ide)?_*)(\.|$)")
_DIVIDED = re.compile(r"(^|\.)(div|divide|true_divide)(\.|$)")

Operand: TypeAlias = str | float
"""The name of a tensor, or a number that the program holds."""


@dataclass(frozen=True)
class FloorQuotient:
    """A binding that gives the floor of a quotient: its name, its operator, and what is divided by what."""

    name: str
    op: str
    operands: tuple[Operand, Operand]


def floor_quotient(binding: Binding) -> FloorQuotient | None:
    """What a binding divides if it gives the floor of a quotient; else None."""
    is_floor = _FLOORED.search(binding.op) is not None
    is_floor |= _DIVIDED.search(binding.op) is not None and binding.kwargs.get("rounding_mode") == "floor"
    operands = tuple(_operand(item) for item in binding.args)
    if not is_floor or len(operands) != 2 or operands[0] is None or operands[1] is None:
        return None
    return FloorQuotient(binding.name, binding.op, (operands[0], operands[1]))


def _operand(item: Json) -> Operand | None:
    if isinstance(item, dict) and len(item) == 1 and isinstance(item.get(REF), str):
        return str(item[REF])
    return item if isinstance(item, int | float) and not isinstance(item, bool) else None


def is_wrong_floor(
    quotient: FloorQuotient,
    plain: Mapping[str, Value],
    other: Mapping[str, Value],
    true: Mapping[str, Value],
) -> Mask | None:
    """Where `other` has another whole number than the exact floor, and `plain` has that one.

    The operands must be equal to the bit in both; `true` has values in float64, as far as they are known.
    None if that is nowhere.
    """
    expected, actual = plain.get(quotient.name), other.get(quotient.name)
    operands = [_array(each, plain, other, expected) for each in quotient.operands]
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return None
    left, right = operands
    if left is None or right is None or actual.shape != expected.shape or actual.dtype != expected.dtype:
        return None
    is_exact = all(_is_exact(each, plain, true) for each in quotient.operands)
    wrong = np.zeros(expected.shape, bool)
    for place in _whole_steps(expected, actual):
        floor = _floor(left, right, place, expected.shape, 0.0 if is_exact else _slack(expected))
        wrong[place] = floor is not None and _as(expected, floor) == float(widen(expected)[place])
    return wrong if wrong.any() else None


def _array(
    operand: Operand, plain: Mapping[str, Value], other: Mapping[str, Value], like: Value
) -> Tensor | None:
    """An operand's value where both runs have the same one, to the bit; else None."""
    if not isinstance(operand, str):
        # A number of the program that the result's type holds exactly; others are rounded somewhere
        if not isinstance(like, np.ndarray) or not math.isfinite(operand):
            return None
        held = np.asarray(operand).astype(like.dtype)
        return held if float(widen(held)) == operand else None
    value, same = plain.get(operand), other.get(operand)
    if not isinstance(value, np.ndarray) or not isinstance(same, np.ndarray):
        return None
    is_same = (value.dtype, value.shape) == (same.dtype, same.shape) and value.tobytes() == same.tobytes()
    return value if is_same else None


def _is_exact(operand: Operand, plain: Mapping[str, Value], true: Mapping[str, Value]) -> bool:
    """Whether an operand is what float64 gives, so that nothing before it was rounded."""
    if not isinstance(operand, str):
        return True
    value, wide = plain[operand], true.get(operand)
    if not isinstance(value, np.ndarray) or not isinstance(wide, np.ndarray):
        return False
    return value.shape == wide.shape and bool((widen(value) == widen(wide)).all())


def _whole_steps(expected: Tensor, actual: Tensor) -> Iterator[tuple[int, ...]]:
    """Yield the places of elements that are finite and a whole number or more apart."""
    pair = [widen(each).astype(np.float64) for each in (expected, actual)]
    apart = np.isfinite(pair[0]) & np.isfinite(pair[1])
    apart &= np.abs(np.where(apart, pair[0], 0) - np.where(apart, pair[1], 0)) >= 1
    for place in np.argwhere(apart)[:MOST_ELEMENTS]:
        yield tuple(int(each) for each in place)


def _floor(
    left: Tensor, right: Tensor, place: tuple[int, ...], shape: tuple[int, ...], slack: float
) -> int | None:
    """The exact floor at a place; None if it is not told, or a whole number is too near."""
    one, two = (float(widen(np.broadcast_to(each, shape))[place]) for each in (left, right))
    if not math.isfinite(one) or not math.isfinite(two) or two == 0:
        return None
    from fractions import Fraction

    exact = Fraction(one) / Fraction(two)
    if slack and abs(exact - round(exact)) <= abs(exact) * Fraction(slack):
        return None
    return math.floor(exact)


def _slack(result: Tensor) -> float:
    """How far noise moves a quotient, relative to it: both operands move."""
    element = element_of(result.dtype) if is_float(result) else None
    return 2 * NOISE_ULPS * EPSILON[element] if element is not None else math.ulp(1.0)


def _as(result: Tensor, floor: int) -> float:
    return float(widen(np.asarray(float(floor)).astype(result.dtype)))
