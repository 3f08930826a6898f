"""Intrinsics of floats that programs call: each with operands that keep its result finite."""

from collections.abc import Callable
from dataclasses import dataclass

from corpus.tir.values import Binary, Call, Const, Expr, literal
from generators.language.values import RandomSource

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
    *_functions("pow", _from_one, _bounded),
    *_functions("fma", _bounded, _bounded, _plain),
    *_functions("ldexp", _bounded, in_half=False),
)
"""Those that TVM compiles for a CPU and that the interpreter knows."""

_INSTEAD = {"copysign": _functions("nextafter", _plain, _plain, in_half=False)}
"""Further ones, which share the turns of another one: a longer table would change every program."""

_OF_HALF = tuple(each for each in FUNCTIONS if each.in_half)


def drawn_function(draws: RandomSource, dtype: str) -> Function:
    """An intrinsic that TVM compiles for this type."""
    found = draws.pick(_OF_HALF if dtype == "float16" else FUNCTIONS)
    others = _INSTEAD.get(found.name)
    return draws.pick((found, *others)) if others else found
