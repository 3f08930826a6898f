"""Expressions of a wanted type, of so much fuel: each kind is an entry that may decline.

Integers carry a range, so that indices lie within their buffers, divisors are not zero and sums do not
overflow; what the ranges cannot show the interpreter does, and the program is drawn again.

In a frame whose buffers hold *any* value of their types (`generators.tir.ranged`) what would overflow is
computed in more bits and brought back, divisors are kept from zero by an expression, and so are shifts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from corpus.tir.forms import (
    FLOATS,
    INTEGERS,
    SIGNED,
    integer_range,
    is_bool,
    is_float,
    is_integer,
)
from corpus.tir.values import (
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    literal,
)
from generators.language.values import RandomSource
from generators.tir.frame import Frame, Known, static_shape
from generators.tir.ranged import (
    Valued,
    cast_of,
    constant_of,
    divided,
    drawn_function,
    drawn_integer,
    fits,
    in_64_bits,
    kept_from_zero,
    ranged,
    shifted,
)

INTEGER_TYPES = ("int32", "int32", "int64", "int8", "uint8", "int16", "uint16", "uint32")
FLOAT_TYPES = ("float32", "float32", "float64", "float16")
_LOW = 0.05
"""How many buffers hold floats that TVM computes in a wider type."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """Draws expressions over the names of a frame."""

    draws: RandomSource
    frame: Frame

    def kept(self, valued: Valued, dtype: str) -> Expr:
        """What a buffer of the frame may hold from then on."""
        return valued.expr if self.frame.extreme else bounded(valued, dtype, self.draws)

    def value(self, dtype: str, fuel: int) -> Valued:
        """An expression of that scalar type."""
        kinds = _BOOLS if is_bool(dtype) else _FLOATS if is_float(dtype) else _INTEGERS
        if fuel <= 0:
            return self.leaf(dtype)
        for _ in range(4):
            made = self.draws.pick(kinds)(self, dtype, fuel - 1)
            if made is not None and fits(made, dtype):
                return made
        return self.leaf(dtype)

    def two(self, dtype: str, fuel: int) -> tuple[Valued, Valued]:
        """Two expressions of that type, which share the fuel."""
        return self.value(dtype, fuel // 2), self.value(dtype, fuel // 2)

    def leaf(self, dtype: str) -> Valued:
        """A constant, a variable or an element of a buffer; a comparison of these for a truth value."""
        if is_bool(dtype) and self.draws.chance(0.7):
            return _at_an_end(self, dtype, 0) or _compared(self, dtype, 0)
        for _ in range(3):
            made = self.draws.pick((_constant, _variable, _element, _element))(self, dtype)
            if made is not None:
                return made
        return _constant(self, dtype)

    def index(self, extent: int) -> Expr:
        """An `int32` from 0 to below `extent`, mostly by a loop's variable."""
        inside = [known for known in self.frame.known if known.low >= 0 and known.high < extent]
        inside = [known for known in inside if known.var.dtype == "int32"]
        if inside and self.draws.chance(0.75):
            return self._moved(self.draws.pick(inside), extent)
        ints = [known for known in self.frame.loops if known.var.dtype == "int32" and known.low >= 0]
        if ints and self.draws.chance(0.5):
            return Binary("floormod", self.draws.pick(ints).var, Const(extent))
        return Const(self.draws.below(extent))

    def _moved(self, known: Known, extent: int) -> Expr:
        """The variable, or backwards, or some places further on where these exist."""
        if self.draws.chance(0.12):
            return Binary("sub", Const(extent - 1), known.var)
        room = extent - 1 - known.high
        if room > 0 and self.draws.chance(0.3):
            return Binary("add", known.var, Const(self.draws.between(1, room)))
        return known.var

    def indices(self, shape: tuple[int, ...]) -> tuple[Expr, ...]:
        """A place in a buffer of that shape."""
        return tuple(map(self.index, shape))


def _constant(sampler: Sampler, dtype: str) -> Valued:
    draws = sampler.draws
    if is_bool(dtype):
        return Valued(Const(draws.chance(0.5), "bool"))
    if is_float(dtype):
        return Valued(literal(draws.between(-8, 8) / draws.pick((1, 2, 4)), dtype))
    if sampler.frame.extreme and draws.chance(0.5):
        return constant_of(drawn_integer(draws, dtype), dtype)
    low = -4 if dtype in SIGNED else 0
    return constant_of(draws.between(low, draws.pick((3, 9, 100))), dtype)


def _variable(sampler: Sampler, dtype: str) -> Valued | None:
    fitting = [known for known in sampler.frame.known if known.var.dtype == dtype]
    if fitting:
        known = sampler.draws.pick(fitting)
        return Valued(known.var, known.low, known.high)
    others = [known for known in sampler.frame.loops if known.var.dtype == "int32"]
    if not others or is_bool(dtype):
        return None
    known = sampler.draws.pick(others)
    made = Valued(Cast(dtype, known.var), known.low, known.high)
    return made if fits(made, dtype) else None


def _element(sampler: Sampler, dtype: str) -> Valued | None:
    shaped = [(buffer, static_shape(buffer)) for buffer in sampler.frame.buffers]
    usable = [(buffer, shape) for buffer, shape in shaped if shape is not None and all(shape)]
    same = [each for each in usable if each[0].dtype == dtype]
    if not same:
        return None
    buffer, shape = sampler.draws.pick(same)
    low, high = integer_range(dtype) if is_integer(dtype) else (0, 0)
    load = Load(buffer.name, sampler.indices(shape), buffer.dtype)
    if sampler.frame.extreme:
        return Valued(load, low, high)
    return Valued(load, max(low, -128), min(high, 127))


def _sum(sampler: Sampler, dtype: str, fuel: int) -> Valued | None:
    return _product(sampler, dtype, fuel, sampler.draws.pick(("add", "sub")))


def _product(sampler: Sampler, dtype: str, fuel: int, op: str = "mul") -> Valued | None:
    a, b = sampler.two(dtype, fuel)
    made = ranged(op, a, b)
    is_open = sampler.frame.extreme and is_integer(dtype) and not fits(made, dtype)
    return in_64_bits(sampler.draws, op, a, b, dtype) if is_open else made


def _extreme(sampler: Sampler, dtype: str, fuel: int) -> Valued:
    a, b = sampler.two(dtype, fuel)
    op, pick = ("min", min) if sampler.draws.chance(0.5) else ("max", max)
    return Valued(Binary(op, a.expr, b.expr), pick(a.low, b.low), pick(a.high, b.high))


def _quotient(sampler: Sampler, dtype: str, fuel: int) -> Valued | None:
    a = sampler.value(dtype, fuel // 2)
    op = sampler.draws.pick(("floordiv", "floordiv", "floormod", "floormod", "div", "mod"))
    if sampler.frame.extreme:
        return divided(op, a, _divisor(sampler, dtype, fuel // 2), dtype)
    return divided(op, a, constant_of(sampler.draws.pick((2, 3, 4, 5, 7, 8, 16)), dtype), dtype)


def _divisor(sampler: Sampler, dtype: str, fuel: int) -> Valued:
    """A number that is not zero: a constant of any sign, or a value kept from zero."""
    draws = sampler.draws
    if draws.chance(0.5):
        number = drawn_integer(draws, dtype) or 1
        if draws.chance(0.7):
            number = draws.pick((2, 3, 4, 7, 8, 10, 16))
            number *= -1 if dtype in SIGNED and draws.chance(0.4) else 1
        return constant_of(number, dtype)
    return kept_from_zero(draws, sampler.value(dtype, fuel), dtype)


def _bits(sampler: Sampler, dtype: str, fuel: int) -> Valued | None:
    a, b = sampler.two(dtype, fuel)
    is_signed = min(a.low, b.low) < 0
    if is_signed and not sampler.frame.extreme:
        return None
    top = (1 << max(each.bit_length() for each in (a.low, a.high, b.low, b.high))) - 1
    op = sampler.draws.pick(("bitand", "bitor", "bitxor"))
    return Valued(Binary(op, a.expr, b.expr), -top - 1 if is_signed else 0, top)


def _shift(sampler: Sampler, dtype: str, fuel: int) -> Valued | None:
    if sampler.frame.extreme:
        number = sampler.value(dtype, fuel // 2).expr if sampler.draws.chance(0.5) else None
        return shifted(sampler.draws, sampler.value(dtype, fuel // 2), number, dtype)
    a, by = sampler.value(dtype, fuel), sampler.draws.between(1, 3)
    if a.low < 0:
        return None
    if sampler.draws.chance(0.5):
        return Valued(Binary("shr", a.expr, Const(by, dtype)), 0, a.high >> by)
    return Valued(Binary("shl", a.expr, Const(by, dtype)), 0, a.high << by)


def _chosen(sampler: Sampler, dtype: str, fuel: int) -> Valued:
    is_double = sampler.draws.chance(0.4)
    condition = (_logic(sampler, "bool", fuel // 2) if is_double else sampler.value("bool", fuel // 3)).expr
    a, b = sampler.value(dtype, fuel // 3), sampler.value(dtype, fuel // 3)
    low, high = min(a.low, b.low), max(a.high, b.high)
    if sampler.draws.chance(0.5):
        return Valued(Select(condition, a.expr, b.expr), low, high)
    return Valued(Call("if_then_else", (condition, a.expr, b.expr), dtype), low, high)


def _cast(sampler: Sampler, dtype: str, fuel: int) -> Valued | None:
    if is_float(dtype):
        source = sampler.draws.pick((*FLOAT_TYPES, *INTEGER_TYPES))
        return None if source == dtype else Valued(Cast(dtype, sampler.value(source, fuel).expr))
    source = sampler.draws.pick(INTEGER_TYPES)
    if source == dtype:
        return None
    made = sampler.value(source, fuel)
    if sampler.frame.extreme:
        return cast_of(made, dtype)
    return Valued(Cast(dtype, made.expr), made.low, made.high)


def _truncated(sampler: Sampler, dtype: str, fuel: int) -> Valued:
    """An exact float, within bounds, as an integer."""
    low, high = (-100, 100) if dtype in SIGNED else (0, 100)
    found = sampler.leaf("float32").expr
    bounded = Binary("min", Binary("max", found, literal(low, "float32")), literal(high, "float32"))
    return Valued(Cast(dtype, bounded), low, high)


def _counted(sampler: Sampler, dtype: str, fuel: int) -> Valued | None:
    """Count the ones of an integer, or the zeros before its first one: that of zero nothing defines."""
    if dtype != "int32":
        return None
    kind = sampler.draws.pick(("uint32", "int32", "int64"))
    made = sampler.value(kind, fuel)
    if made.low < 0:
        return None
    if sampler.draws.chance(0.5):
        return Valued(Cast("int32", Call("popcount", (made.expr,), kind)), 0, 64)
    some = Binary("max", made.expr, Const(1, kind))
    return Valued(Call("clz", (some,), "int32"), 0, 64)


def _ratio(sampler: Sampler, dtype: str, fuel: int) -> Valued:
    a, b = sampler.two(dtype, fuel)
    below = Binary("add", Binary("mul", b.expr, b.expr), literal(1, dtype))
    return Valued(Binary("div", a.expr, below))


def _function(sampler: Sampler, dtype: str, fuel: int) -> Valued:
    """An intrinsic of floats; one that rounding may move by one gets an operand that is exact."""
    function = drawn_function(sampler.draws, dtype)
    operands = [
        sampler.leaf(dtype).expr if function.is_rough else sampler.value(dtype, fuel // function.arity).expr
        for _ in range(function.arity)
    ]
    return Valued(function.of(tuple(operands), dtype))


_ORDERS = ("lt", "le", "gt", "ge", "eq", "ne")


def _compared(sampler: Sampler, dtype: str, fuel: int) -> Valued:
    kind = sampler.draws.pick(INTEGER_TYPES)
    a, b = sampler.two(kind, fuel)
    return Valued(Binary(sampler.draws.pick(_ORDERS), a.expr, b.expr))


def _at_an_end(sampler: Sampler, dtype: str, fuel: int) -> Valued | None:
    """A loop's variable beside a number of its range: where an order turns."""
    if not sampler.frame.loops:
        return None
    known = sampler.draws.pick(sampler.frame.loops)
    number = Const(sampler.draws.between(known.low, min(known.high, known.low + 300)), known.var.dtype)
    made = Binary(sampler.draws.pick(_ORDERS), known.var, number)
    return Valued(Unary("not", made) if sampler.draws.chance(0.3) else made)


def _exactly_compared(sampler: Sampler, dtype: str, fuel: int) -> Valued:
    """Floats that no arithmetic has touched: rounding cannot turn the answer."""
    kind = sampler.draws.pick(FLOAT_TYPES)
    a, b = sampler.leaf(kind).expr, sampler.leaf(kind).expr
    return Valued(Binary(sampler.draws.pick(("lt", "le", "gt", "ge")), a, b))


def _classified(sampler: Sampler, dtype: str, fuel: int) -> Valued:
    """Ask of a float that no arithmetic has touched whether it is a number."""
    kind = sampler.draws.pick(FLOAT_TYPES)
    return Valued(Call("isnan", (sampler.leaf(kind).expr,), "bool"))


def _logic(sampler: Sampler, dtype: str, fuel: int) -> Valued:
    a, b = sampler.two("bool", fuel)
    if sampler.draws.chance(0.25):
        return Valued(Unary("not", a.expr))
    return Valued(Binary(sampler.draws.pick(("and", "or")), a.expr, b.expr))


Kind = Callable[[Sampler, str, int], Valued | None]
_INTEGERS: tuple[Kind, ...] = (
    *(_sum, _sum, _product, _extreme, _quotient, _quotient, _bits, _shift, _chosen, _cast, _truncated),
    _counted,
)
_FLOATS: tuple[Kind, ...] = (
    *(_sum, _sum, _product, _product, _extreme, _chosen, _cast, _ratio, _function, _function),
)
_BOOLS: tuple[Kind, ...] = (
    *(_compared, _compared, _compared, _exactly_compared, _exactly_compared, _logic, _logic),
    *(_classified, _at_an_end),
)


def bounded(valued: Valued, dtype: str, draws: RandomSource) -> Expr:
    """A value that may be stored over and over: an integer is brought back into a small range."""
    if not is_integer(dtype):
        return valued.expr
    if valued.low >= -64 and valued.high <= 64 and draws.chance(0.5):
        return valued.expr
    return Binary("floormod", valued.expr, Const(draws.pick((7, 16, 61, 64)), dtype))


def element_type(draws: RandomSource) -> str:
    """A type for a buffer."""
    if draws.chance(_LOW):
        return "bfloat16"
    return draws.pick(FLOAT_TYPES if draws.chance(0.5) else INTEGER_TYPES)


def usable(buffer: Buffer) -> bool:
    """Whether expressions know what to do with a buffer: static dims, a plain element type."""
    shape = static_shape(buffer)
    known = buffer.dtype in FLOATS | INTEGERS
    return shape is not None and all(shape) and known
