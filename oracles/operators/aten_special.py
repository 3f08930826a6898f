"""Operators of torch itself with numbers beside tensors, changes of the element type, rarer functions."""

import math

import numpy as np

from oracles.operators.aten_index import indices
from oracles.operators.aten_reduce import draw_order
from oracles.relation.arithmetic import (
    CHOOSES,
    MOVES,
    ROUNDS,
    WHOLE,
    Arithmetic,
    Nonfinite,
    Rounding,
    within_type,
)
from oracles.relation.aten import EVERY, FLOATING, INTEGRAL, NUMBERS, aten, largest, number, places, promotion
from oracles.relation.open_checks import is_out_of_range
from oracles.relation.program import ALONG, MAX_ELEMENTS, MAX_RANK, Call, Kind, Operand, Scope
from oracles.relation.rules import (
    TO_TRUTH,
    Attributes,
    by_type,
    inside,
    joined,
    magnitudes,
    same_shape,
    sampled_with,
    shaped,
    whole_type,
)
from oracles.relation.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    NUMPY,
    U8,
    DType,
    Range,
    Shape,
    extent,
    is_float,
)

_JOINED = shaped(joined, promotion)

# A number beside a tensor


def _beside(call: Call) -> DType:
    """A float makes floats of integers, an integer makes integers of truth."""
    dtype, found = call.operand(0).dtype, [*call.attributes.values()]
    if any(isinstance(value, float) for value in found):
        return dtype if is_float(dtype) else F32
    return I64 if dtype is BOOL else dtype


_BESIDE = shaped(same_shape, _beside)
_FLOATS, _WHOLE = (0.5, 2.0, -1.0, 2.5, 3.0), (1, 2, 3, 5)


def _draw_number(scope: Scope, focus: Operand) -> Attributes:
    """A number of the kind of the focus, or a float beside integers."""
    if focus.dtype not in (BOOL, *FLOATING) and scope.draws.chance(0.4):
        return {"other": scope.draws.pick(_FLOATS)}
    return {"other": number(scope, focus.dtype, _FLOATS, _WHOLE)}


def _sample_power(scope: Scope, focus: Operand) -> Call:
    """Whole powers of anything, others of what lies above zero; integers keep to theirs from zero on."""
    if not is_float(focus.dtype):
        return Call((focus,), {"exponent": scope.draws.pick((0, 1, 2, 3, 5))})
    away = focus.range.low > 0 and focus.range.magnitude_floor >= 0.1
    exponents = (0.5, -0.5, -1.0, -2.0, 1.5, 2.5) if away else (2.0, 3.0, 1.0, 0.0, 4.0)
    return Call((focus,), {"exponent": scope.draws.pick(exponents)})


def _powered(call: Call) -> float:
    exponent = call.attributes["exponent"]
    assert isinstance(exponent, (int, float))
    return math.pow(max(magnitudes(call)[0], 10.0 if exponent < 0 else 1.0), abs(exponent))


# Other element types

_CAST_TYPES = (F32, F32, F64, F16, I32, I64, I16, I8, U8, BOOL)


def _fits_into(focus: Operand, wanted: DType) -> bool:
    """Whether a cast is defined: a float must lie within the range of the integers."""
    is_whole = not is_float(wanted) and wanted is not BOOL
    return not (is_whole and is_float(focus.dtype)) or focus.range.is_within(extent(wanted)._replace(away=0))


def _sample_copy(scope: Scope, focus: Operand) -> Call | None:
    types = (*_CAST_TYPES, BF16) if scope.allows(BF16) else _CAST_TYPES
    found = [dtype for dtype in types if dtype is not focus.dtype and _fits_into(focus, dtype)]
    return Call((focus,), {"dtype": int(scope.draws.pick(found))})


def _named_type(call: Call) -> DType:
    return DType(call.integer("dtype", 1))


_NAMED = shaped(same_shape, _named_type)


def _bound_copy(call: Call) -> tuple[Range, ...]:
    wanted = _named_type(call)
    low, high, _ = call.operand(0).range
    found = Range(min(low, 0), max(high, 0))
    widened = Range(found.low * 1.02, found.high * 1.02) if is_float(wanted) else found
    return (Range(0, 1) if wanted is BOOL else within_type(wanted, widened),)


_WIDTHS = ((I64,), (I32,), (I16,), (I8, U8))
"""Integers of one width each: bits of one are bits of the other, and of some floats."""


def _sample_bits(scope: Scope, focus: Operand) -> Call | None:
    """The same bits as integers, of another width where the last dim allows it."""
    wanted = scope.draws.pick(INTEGRAL)
    own, other = NUMPY[focus.dtype].itemsize, NUMPY[wanted].itemsize
    if own != other and (focus.producer is not None or not _divides(focus.shape, own, other)):
        return None
    if own > other and math.prod(focus.shape) * own // other > MAX_ELEMENTS:
        return None
    return Call((focus,), {"dtype": int(wanted)})


def _divides(shape: Shape, own: int, other: int) -> bool:
    return bool(shape) and math.prod(shape) > 0 and shape[-1] * own % other == 0


def _bits(call: Call) -> Shape:
    shape, own = call.operand(0).shape, NUMPY[call.operand(0).dtype].itemsize
    other = NUMPY[_named_type(call)].itemsize
    return shape if own == other else (*shape[:-1], shape[-1] * own // other)


_BITS = shaped(_bits, _named_type)


def _bound_bits(call: Call) -> tuple[Range, ...]:
    return (extent(_named_type(call)),)


# Sets and places


def _sample_isin(scope: Scope, focus: Operand) -> Call:
    count = scope.draws.between(0, 9)
    found = [scope.draws.between(0 if focus.dtype is U8 else -4, 4) for _ in range(count)]
    elements = scope.fix(np.array(found, np.float64).astype(NUMPY[focus.dtype]), focus.dtype)
    return Call((focus, elements), {"invert": scope.draws.below(2)})


def _sample_one_hot(scope: Scope, focus: Operand) -> Call | None:
    """The focus gives the shape alone."""
    classes = scope.draws.between(1, 9)
    if math.prod(focus.shape) * classes > MAX_ELEMENTS or focus.rank >= MAX_RANK:
        return None
    return Call((indices(scope, focus.shape, classes),), {"num_classes": classes})


def _one_hot(call: Call) -> Shape:
    return (*call.operand(0).shape, call.integer("num_classes", 1))


def _sample_where(scope: Scope, focus: Operand) -> Call | None:
    """Two values of perhaps different types by a condition."""
    dtype = scope.draws.pick(EVERY) if scope.draws.chance(0.3) else focus.dtype
    other = scope.partner(focus, dtype=dtype if scope.allows(dtype) else focus.dtype)
    condition = scope.partner(focus, dtype=BOOL)
    call = Call((condition, focus, other) if scope.draws.chance(0.5) else (condition, other, focus))
    try:
        joined(call)
    except ValueError:
        return None
    return call


_CHOSEN = shaped(joined, lambda call: promotion(call._replace(operands=call.operands[1:])))
_ONE_HOT, _PLACES = shaped(_one_hot, places), shaped(same_shape, places)
_CASTS = Arithmetic(
    Rounding.NARROWING, opens={"out of the range of the integers": is_out_of_range}, typed_by="dtype"
)
_VIEWS = Arithmetic(Rounding.NOTHING, Nonfinite.MOVED, reads_bits=True, typed_by="dtype")

OPERATORS = (
    aten("rsub", Kind.ARITHMETIC, ROUNDS, NUMBERS).by(
        sampled_with(_draw_number), _BESIDE, by_type(_BESIDE, lambda call: magnitudes(call)[0] * 3 + 6)
    ),
    aten("pow", Kind.MATH, ROUNDS, NUMBERS, _sample_power, most=_powered),
    aten("_to_copy", Kind.CAST, _CASTS, EVERY, _sample_copy, _NAMED, bound=_bound_copy),
    aten("view", Kind.CAST, _VIEWS, NUMBERS, _sample_bits, _BITS, bound=_bound_bits),
    aten("where", Kind.LOGIC, MOVES, EVERY, _sample_where, _CHOSEN, largest),
    aten("bitwise_not", Kind.LOGIC, CHOOSES, (*INTEGRAL, BOOL), bound=whole_type),
    aten("isin", Kind.COMPARE, CHOOSES, NUMBERS, _sample_isin, TO_TRUTH, bound=inside(0, 1)),
    aten("one_hot", Kind.PART, MOVES, EVERY, _sample_one_hot, _ONE_HOT, bound=inside(0, 1)),
    aten("argsort", Kind.LAYOUT, WHOLE, NUMBERS, ranks=ALONG).by(
        sampled_with(draw_order), _PLACES, inside(0, 5000)
    ),
)
