"""Operators, calls and values with ranges: no integer overflows, no divisor is 0, every float stays finite.

What an integer's type does not hold is computed in 64 bits and brought back: by dropping bits, a shift, a
quotient, a remainder or bounds.

Compilers go wrong at the ends of types, if they do: integers lie there and around powers of two, floats
around ties of rounding and far apart. A program's values are such for most seeds; for the others they are
small, as everybody's are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add, mul, sub

import ml_dtypes
import numpy as np

from corpus.tir.forms import integer_range, is_integer, parts
from corpus.tir.program import make_inputs
from corpus.tir.tree import Module
from corpus.tir.values import Binary, Buffer, Call, Cast, Const, Expr, Select, literal
from corpus.values import Tensor, Value
from generators.language.values import RandomSource

_SHARE = 0.6
_FEW = 0.35
"""How many elements of a buffer are small all the same: a program of extremes alone shows no others."""
_FLOATS: Sequence[float] = (0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 2048.5, 16777215.0, -0.0, 1e4, -3e4, 1e-4)
_BEYOND = 0.15
"""How many floats are tiny, huge, or a step beside a tie: most sums of such are those of the huge ones."""
_NARROWER = {"float64": "float32", "float32": "float16", "float16": "float8_e4m3fn"}
"""The type that a type's values lie between two of, where a cast has to choose."""


def has_extremes(seed: int) -> bool:
    """Whether the values of a seed are extremes."""
    return RandomSource(f"tir/extremes/{seed}").chance(_SHARE)


def drawn_integer(draws: RandomSource, dtype: str) -> int:
    """An integer of a type: one of its ends, a power of two or a neighbour of these, of either sign."""
    low, high = integer_range(dtype)
    power = 1 << draws.below(parts(dtype).bits)
    found = draws.pick((low, high, power, power, -power, 0)) + draws.pick((-1, 0, 0, 1))
    return min(max(found, low), high)


def inputs_of(module: Module, seed: int) -> dict[str, Value]:
    """The values of a module's parameters for a seed; numbers beside buffers are counts of loops."""
    made = {name: _counted(value) for name, value in make_inputs(module, seed).items()}
    if not has_extremes(seed):
        return made
    for place, buffer in enumerate(module.main.buffers):
        value = made[buffer.name]
        if isinstance(value, np.ndarray):
            made[buffer.name] = _sharpened(buffer, value, RandomSource(f"tir/extremes/{seed}/{place}"))
    return made


def _counted(value: Value) -> Value:
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind == "i":
        return np.asarray(abs(value))
    return value


def _sharpened(buffer: Buffer, value: Tensor, draws: RandomSource) -> Tensor:
    """The value with extremes in most places."""
    flat = value.copy().reshape(-1)
    for place in range(flat.size):
        if draws.chance(_FEW):
            continue
        if is_integer(buffer.dtype):
            flat[place] = drawn_integer(draws, buffer.dtype)
        elif buffer.dtype in _NARROWER:
            found = drawn_float(draws, buffer.dtype)
            flat[place] = found if buffer.dtype != "float16" or abs(found) < 65_000 else 2_049
    return flat.reshape(value.shape)


def drawn_float(draws: RandomSource, dtype: str) -> float:
    """A float of a type: mostly where integers round; else tiny, huge, or within a step of a narrower tie."""
    if not draws.chance(_BEYOND):
        return draws.pick(_FLOATS)
    own, narrower = np.dtype(dtype).type, ml_dtypes.finfo(_NARROWER[dtype])
    limits = np.finfo(own)
    if draws.chance(0.4):
        found = draws.pick((limits.smallest_subnormal, limits.tiny, limits.max, limits.max / 2, limits.eps))
    else:
        tie = own(1 + float(narrower.eps) * draws.pick((0.5, 1.5)))
        found = draws.pick((np.nextafter(tie, own(0)), tie, np.nextafter(tie, own(4))))
    return float(found) * draws.pick((1, 1, -1))


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


def constant_of(number: int, dtype: str) -> Valued:
    """An integer that is written there."""
    return Valued(Const(number, dtype), number, number)


def cast_of(valued: Valued, dtype: str) -> Valued:
    """An integer cast to a type, which keeps the low bits of what lies beyond its range."""
    made = Valued(Cast(dtype, valued.expr), valued.low, valued.high)
    if fits(made, dtype):
        return made
    low, high = integer_range(dtype)
    if valued.low == valued.high:  # TVM refuses a literal out of range
        return constant_of((valued.low - low) % (high - low + 1) + low, dtype)
    return Valued(made.expr, low, high)


_COMPUTED: dict[str, Callable[[int, int], int]] = {"add": add, "sub": sub, "mul": mul}


def in_64_bits(draws: RandomSource, op: str, a: Valued, b: Valued, dtype: str) -> Valued | None:
    """A sum, a difference or a product that may overflow its type: of 64 bits, brought back into the type."""
    a, b = (_eased(draws, each, dtype) for each in (a, b))
    made = ranged(op, a, b)
    if fits(made, "int32") and draws.chance(_SCALED):
        made = ranged("mul", made, constant_of(draws.pick(_FACTORS), "int64"))
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
        return _shifted_by(wide, valued, draws.pick((33, 40, 55)))
    return _remainder(wide, draws.pick((_MOST_HALF, 46_341, 65_537, 1_000)))


def _shifted_by(wide: Expr, valued: Valued, by: int) -> Valued:
    return Valued(Binary("shr", wide, Const(by, "int64")), valued.low >> by, valued.high >> by)


def _remainder(wide: Expr, by: int) -> Valued:
    return Valued(Binary("floormod", wide, Const(by, "int64")), 0, by - 1)


def _narrowed(draws: RandomSource, wide: Valued, dtype: str) -> Valued:
    """A 64-bit integer in a type again: by dropping bits, or first by a shift, a quotient or bounds."""
    low, high = integer_range(dtype)
    if dtype == "int64":
        return wide
    way = draws.pick(("bits", "shift", "quotient", "remainder", "bounds"))
    made = wide
    if way == "shift":
        made = _shifted_by(wide.expr, wide, draws.pick((8, 16, 31, 32)))
    elif way == "quotient":
        by = draws.pick((3, 7, 1_000, 65_536, _MOST_HALF))
        made = Valued(Binary("floordiv", wide.expr, Const(by, "int64")), wide.low // by, wide.high // by)
    elif way == "remainder":
        made = _remainder(wide.expr, draws.pick((7, 100, min(high, 46_341))))
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


Operand = Callable[[Expr, str], Expr]


def _plain(operand: Expr, dtype: str) -> Expr:
    return operand


def _bounded(operand: Expr, dtype: str) -> Expr:
    """An operand from -4 to 4."""
    return Binary("max", Binary("min", operand, literal(4, dtype)), literal(-4, dtype))


def _below_one(operand: Expr, dtype: str) -> Expr:
    return Binary("mul", Call("sin", (operand,), dtype), literal(0.5, dtype))


def _from_zero(operand: Expr, dtype: str) -> Expr:
    return Call("fabs", (operand,), dtype)


def _from_one(operand: Expr, dtype: str) -> Expr:
    return Binary("add", Call("fabs", (operand,), dtype), literal(1, dtype))


@dataclass(frozen=True, slots=True)
class Function:
    """An intrinsic, and what is done to each operand first.

    `is_rough` ones jump, so that a rounding error may move them by one: their operand is an exact one.
    `in_half` says that TVM compiles it for float16 on a CPU.
    """

    name: str
    operands: tuple[Operand, ...] = (_plain,)
    is_rough: bool = False
    in_half: bool = True

    @property
    def arity(self) -> int:
        """Count its operands."""
        return len(self.operands)

    def of(self, operands: tuple[Expr, ...], dtype: str) -> Expr:
        """The call with these operands."""
        guarded = tuple(guard(each, dtype) for guard, each in zip(self.operands, operands, strict=True))
        power = (Const(3),) if self.name == "ldexp" else ()
        return Call(self.name, (*guarded, *power), dtype)


def _functions(
    names: str, *operands: Operand, is_rough: bool = False, in_half: bool = True
) -> list[Function]:
    return [Function(name, operands or (_plain,), is_rough, in_half) for name in names.split()]


FUNCTIONS: tuple[Function, ...] = (
    *_functions("sin cos tanh sigmoid fabs tan"),
    *_functions("erf atan asinh", in_half=False),
    *_functions("floor ceil trunc round nearbyint", is_rough=True),
    *_functions("exp exp2 exp10", _bounded),
    *_functions("cosh sinh", _bounded, in_half=False),
    *_functions("sqrt", _from_zero),
    *_functions("rsqrt log log2 log10", _from_one),
    *_functions("log1p", _from_zero, in_half=False),
    *_functions("acosh", _from_one, in_half=False),
    *_functions("atanh", _below_one),
    *_functions("asin acos", _below_one, in_half=False),
    *_functions("hypot", _plain, _plain, in_half=False),
    *_functions("atan2", _plain, _from_one, in_half=False),
    *_functions("copysign", _plain, _plain, is_rough=True, in_half=False),
    *_functions("nextafter", _plain, _plain, in_half=False),
    *_functions("pow", _from_one, _bounded),
    *_functions("fma", _bounded, _bounded, _plain),
    *_functions("ldexp", _bounded, in_half=False),
)
"""Those that TVM compiles for a CPU and that the interpreter knows."""

_OF_HALF = tuple(each for each in FUNCTIONS if each.in_half)


def drawn_function(draws: RandomSource, dtype: str) -> Function:
    """An intrinsic that TVM compiles for this type."""
    return draws.pick(_OF_HALF if dtype == "float16" else FUNCTIONS)
