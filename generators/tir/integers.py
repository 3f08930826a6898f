"""Integers with their ranges: arithmetic that overflows, divides by zero and shifts too far nowhere.

What the type does not hold is computed in 64 bits and brought back: by dropping bits, a shift, a quotient, a
remainder or bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import add, mul, sub

from corpus.tir.types import integer_range, is_integer, parts
from corpus.tir.values import Binary, Cast, Const, Expr, Select
from generators.language.values import RandomSource


@dataclass(frozen=True, slots=True)
class Valued:
    """An expression, and the range of its value where it is an integer."""

    expr: Expr
    low: int = 0
    high: int = 0


def fits(made: Valued, dtype: str) -> bool:
    """Whether a type holds every integer of the range; any does floats and truth values."""
    if not is_integer(dtype):
        return True
    low, high = integer_range(dtype)
    return low <= made.low and made.high <= high


def cast_of(valued: Valued, dtype: str) -> Valued:
    """An integer cast to a type, which keeps the low bits of what lies beyond its range."""
    made = Valued(Cast(dtype, valued.expr), valued.low, valued.high)
    if fits(made, dtype):
        return made
    low, high = integer_range(dtype)
    if valued.low == valued.high:  # TVM refuses a literal out of range: `_wrapped` draws a few
        number = (valued.low - low) % (high - low + 1) + low
        return Valued(Const(number, dtype), number, number)
    return Valued(made.expr, low, high)


_COMPUTED: dict[str, Callable[[int, int], int]] = {"add": add, "sub": sub, "mul": mul}


def in_64_bits(draws: RandomSource, op: str, a: Valued, b: Valued, dtype: str) -> Valued | None:
    """A sum, a difference or a product that may overflow its type: of 64 bits, brought back into the type."""
    a, b = (_eased(draws, each, dtype) for each in (a, b))
    made = ranged(op, a, b)
    if fits(made, "int32") and draws.chance(_SCALED):
        factor = draws.pick(_FACTORS)
        made = ranged("mul", made, Valued(Const(factor, "int64"), factor, factor))
    return _narrowed(draws, made, dtype) if fits(made, "int64") else None


_SCALED, _FACTORS = 0.7, (65_537, 1_000_003, (1 << 31) - 1, 1 << 31, -(1 << 31) - 1, 3_000_000_019)
"""How often what 32 bits hold is taken beyond them, and by which factors."""


def ranged(op: str, a: Valued, b: Valued) -> Valued:
    """A sum, a difference or a product, with the range that it has without bounds."""
    ends = [_COMPUTED[op](x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Valued(Binary(op, a.expr, b.expr), min(ends), max(ends))


def _eased(draws: RandomSource, valued: Valued, dtype: str) -> Valued:
    """An integer as one of 64 bits; what has more than half of them keeps its upper ones or a remainder."""
    wide = Cast("int64", valued.expr) if dtype != "int64" else valued.expr
    if max(-valued.low, valued.high) < 1 << 31:
        return Valued(wide, valued.low, valued.high)
    if dtype != "uint64" and draws.chance(0.5):
        by = draws.pick((33, 40, 55))
        return Valued(Binary("shr", wide, Const(by, "int64")), valued.low >> by, valued.high >> by)
    modulus = draws.pick((_MOST_HALF, 46_341, 65_537, 1_000))
    return Valued(Binary("floormod", wide, Const(modulus, "int64")), 0, modulus - 1)


def _narrowed(draws: RandomSource, wide: Valued, dtype: str) -> Valued:
    """A 64-bit integer in a type again: by dropping bits, or first by a shift, a quotient or bounds."""
    low, high = integer_range(dtype)
    if dtype == "int64":
        return wide
    way = draws.pick(("bits", "shift", "quotient", "remainder", "bounds"))
    made = wide
    if way == "shift":
        by = draws.pick((8, 16, 31, 32))
        made = Valued(Binary("shr", wide.expr, Const(by, "int64")), wide.low >> by, wide.high >> by)
    elif way == "quotient":
        by = draws.pick((3, 7, 1_000, 65_536, _MOST_HALF))
        made = Valued(Binary("floordiv", wide.expr, Const(by, "int64")), wide.low // by, wide.high // by)
    elif way == "remainder":
        by = draws.pick((7, 100, min(high, 46_341)))
        made = Valued(Binary("floormod", wide.expr, Const(by, "int64")), 0, by - 1)
    elif way == "bounds":
        least, most = max(low, -_MOST_HALF), min(high, _MOST_HALF)
        bounded = Binary("min", Binary("max", wide.expr, Const(least, "int64")), Const(most, "int64"))
        made = Valued(bounded, least, most)
    return cast_of(made, dtype)


_MOST_HALF = (1 << 31) - 1


def kept_from_zero(draws: RandomSource, by: Valued, dtype: str) -> Valued:
    """A divisor: the value where it is not zero."""
    one = Const(1, dtype)
    if not by.low <= 0 <= by.high:
        return by
    way = draws.pick(("positive", "odd", "chosen"))
    if way == "positive":
        return Valued(Binary("max", by.expr, one), 1, max(by.high, 1))
    if way == "odd":
        return Valued(Binary("bitor", by.expr, one), by.low if by.low < 0 else 1, max(by.high | 1, 1))
    is_zero = Binary("eq", by.expr, Const(0, dtype))
    return Valued(Select(is_zero, one, by.expr), by.low if by.low < 0 else 1, max(by.high, 1))


def divided(op: str, a: Valued, by: Valued, dtype: str) -> Valued:
    """A quotient or a remainder, with the range of both signs' results."""
    least, _ = integer_range(dtype)
    if least < 0 and a.low == least and by.low <= -1 <= by.high:
        a = Valued(Binary("max", a.expr, Const(least + 1, dtype)), least + 1, max(a.high, least + 1))
    made = Binary(op, a.expr, by.expr)
    if op in ("div", "floordiv"):
        most = max(-a.low, a.high)
        return Valued(made, min(a.low, 0), max(a.high, 0)) if by.low > 0 else Valued(made, -most, most)
    rest = max(-by.low, by.high) - 1
    if op == "floormod":
        return Valued(made, min(by.low + 1, 0), max(by.high - 1, 0))
    return Valued(made, -rest if a.low < 0 else 0, rest if a.high > 0 else 0)


def shifted(draws: RandomSource, a: Valued, number: Expr | None, dtype: str) -> Valued:
    """A shift by up to all bits but one, also of what is negative, by a number or by a constant."""
    bits = parts(dtype).bits
    by = Const(draws.between(1, bits - 1), dtype)
    amount = by if number is None else Binary("bitand", number, Const(bits - 1, dtype))
    right = Valued(Binary("shr", a.expr, amount), min(a.low, 0), max(a.high, 0))
    left = Valued(Binary("shl", a.expr, by), a.low << int(by.value), a.high << int(by.value))
    return left if a.low >= 0 and fits(left, dtype) and draws.chance(0.6) else right
