"""Operators whose results have shapes that follow from values: known ones, or ones known not to be zero."""

import math

import numpy as np

from corpus.values import Tensor
from oracles.relation.arithmetic import ROUNDS, WHOLE, Arithmetic, Rounding
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import (
    ALONG,
    MAX_ELEMENTS,
    MAX_RANK,
    RANKS,
    VECTOR,
    Attribute,
    Call,
    DoesNotFit,
    Kind,
    Operand,
    Scope,
)
from oracles.relation.rules import inside, inverted
from oracles.relation.types import (
    BOOL,
    F32,
    F64,
    I8,
    I32,
    I64,
    NUMPY,
    U8,
    DType,
    Range,
    Shape,
    TensorType,
    dtype_of,
    is_filled,
)

_AWAY = Range(-math.inf, math.inf, 0.01)


def _sample_nonzero(scope: Scope, focus: Operand) -> Call | None:
    """Find nonzeros among values that are all away from zero, or all known."""
    known = focus.content is not None and focus.is_constant
    return Call((focus,)) if known or focus.range.is_within(_AWAY) else None


def _infer_nonzero(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    count = math.prod(focus.shape) if focus.content is None else int(np.count_nonzero(focus.content))
    return (TensorType(I64, (focus.rank, count)),)


def _bound_nonzero(call: Call) -> tuple[Range, ...]:
    return (Range(0, max(call.operand(0).shape, default=1)),)


def _solve_nonzero(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """Ones along an axis, as many as are wanted."""
    rank, count = wanted.shape
    dims = [1] * rank
    dims[scope.draws.below(rank)] = count
    return Call((scope.fix(np.ones(dims, dtype=np.float32), F32),))


def _is_nonzero(shape: Shape) -> bool:
    return len(shape) == 2 and 1 <= shape[0] <= MAX_RANK


def _sample_constant(scope: Scope, focus: Operand) -> Call | None:
    """A tensor of one value; its shape is the known content of the focus."""
    shape = _known(focus)
    if shape is None or len(shape) > MAX_RANK or not all(0 <= dim <= MAX_ELEMENTS for dim in shape):
        return None
    return Call((focus,), _value(scope, scope.draws.pick((F32, F32, F64, I64, I32, BOOL, U8))))


def _value(scope: Scope, dtype: DType) -> dict[str, Attribute]:
    """Left out, it is zero as a float of 32 bits."""
    if dtype is F32 and scope.draws.chance(0.3):
        return {}
    return {"value": np.array([scope.draws.pick((0, 1, 1, 3))], dtype=NUMPY[dtype])}


def _known(focus: Operand) -> tuple[int, ...] | None:
    if focus.content is None:
        return None
    return tuple(int(item) for item in focus.content.reshape(-1).tolist())


def _filling(call: Call) -> Tensor:
    value = call.attributes.get("value")
    return value if isinstance(value, np.ndarray) else np.zeros(1, dtype=np.float32)


def _infer_constant(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(dtype_of(_filling(call)), call.ints(0) or ()),)


def _bound_constant(call: Call) -> tuple[Range, ...]:
    value = float(_filling(call)[0])
    return (Range(value, value),)


def _solve_constant(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return Call((scope.fix_ints(wanted.shape),), _value(scope, wanted.dtype))


def sample_range(scope: Scope, focus: Operand) -> Call | None:
    """Make a range from 0 to the known focus, in positive or negative steps."""
    known = _known(focus)
    if known is None or not 0 <= known[0] <= 64:
        return None
    start, step = scope.draws.pick(((0, 1), (0, 2), (1, 1), (-2, 3)))
    return Call((scope.fix_scalar(start, focus.dtype), focus, scope.fix_scalar(step, focus.dtype)))


def infer_range(call: Call) -> tuple[TensorType, ...]:
    """Infer a range's type: one element for each step from start to limit."""
    (start,), (limit,), (step,) = (call.ints(index) or (0,) for index in range(3))
    return (TensorType(call.operand(1).dtype, (max(0, -(-(limit - start) // step)),)),)


def bound_range(call: Call) -> tuple[Range, ...]:
    """Bound a range by the least start and the greatest limit."""
    start, limit = call.operand(0).range, call.operand(1).range
    return (Range(start.low, max(limit.high, start.low)),)


def _solve_range(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """Make a range from 0 in steps of 1."""
    numbers = (0, wanted.shape[0], 1)
    return Call(tuple(scope.fix_scalar(number, wanted.dtype) for number in numbers))


_WINDOWED = (F32, F64)


def _sample_window(scope: Scope, focus: Operand) -> Call | None:
    known = _known(focus)
    if known is None or not 2 <= known[0] <= 64:
        return None
    return Call((focus,), _window(scope, scope.draws.pick(_WINDOWED)))


def _window(scope: Scope, dtype: DType) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {"periodic": scope.draws.below(2)} if scope.draws.chance(0.5) else {}
    return {**attributes, "output_datatype": int(dtype)}


def _infer_window(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(DType(call.integer("output_datatype", 1)), call.ints(0) or (0,)),)


def _solve_window(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    size = scope.fix_scalar(wanted.shape[0], scope.draws.pick((I32, I64)))
    return Call((size,), _window(scope, wanted.dtype))


def _sample_unique(scope: Scope, focus: Operand) -> Call | None:
    """Along an axis of one, or of a known tensor."""
    if focus.content is not None and focus.is_constant:
        return Call((focus,), _order(scope))
    ones = [axis for axis, dim in enumerate(focus.shape) if dim == 1]
    if not ones or 0 in focus.shape:
        return None
    return Call((focus,), {**_order(scope), "axis": scope.draws.pick(ones)})


def _order(scope: Scope) -> dict[str, Attribute]:
    return {"sorted": scope.draws.below(2)} if scope.draws.chance(0.5) else {}


def _infer_unique(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    if "axis" in call.attributes:
        return (focus.type,)
    if focus.content is None:
        raise DoesNotFit("values")
    return (TensorType(focus.dtype, (len(set(focus.content.reshape(-1).tolist())),)),)


def _recognise_unique(operator: Operator, wanted: TensorType, opset: int) -> bool:
    shape = wanted.shape
    along = bool(shape) and is_filled(shape) and 1 in shape
    return wanted.dtype in operator.dtypes and (along or len(shape) == 1)


def _solve_unique(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    if is_filled(shape) and 1 in shape:
        return Call((scope.supply(*wanted),), {**_order(scope), "axis": shape.index(1)})
    numbers = np.arange(shape[0]).astype(NUMPY[wanted.dtype])
    return Call((scope.fix(numbers, wanted.dtype),), _order(scope))


def _is_window(shape: Shape) -> bool:
    return len(shape) == 1 and 2 <= shape[0] <= 64


_CONSTANTS = (F32, F64, I64, I32, BOOL, U8)
_NONZERO, _UNIQUE = inverted(_is_nonzero, _solve_nonzero, I64), Inverse(_recognise_unique, _solve_unique)
_CONSTANT = inverted(RANKS, _solve_constant, *_CONSTANTS)
RANGE = inverted(VECTOR, _solve_range)
_WINDOW = inverted(_is_window, _solve_window, *_WINDOWED)


def _windowed(name: str) -> Operator:
    return Operator(name, Kind.PART, ROUNDS, (I64, I32), ranks=range(1), domain=Range(2, 64), since=17).by(
        _sample_window, _infer_window, inside(-0.1, 1.1), _WINDOW
    )


OPERATORS = (
    Operator("NonZero", Kind.PART, WHOLE, (F32, I32, I64, U8, BOOL), ranks=ALONG).by(
        _sample_nonzero, _infer_nonzero, _bound_nonzero, _NONZERO
    ),
    Operator(
        "ConstantOfShape",
        Kind.PART,
        Arithmetic(Rounding.NOTHING, dims_at=(0,)),
        (I64,),
        ranks=VECTOR,
        domain=Range(0, 17),
    ).by(_sample_constant, _infer_constant, _bound_constant, _CONSTANT),
    Operator("Range", Kind.PART, WHOLE, (I64, I32), ranks=range(1), domain=Range(0, 64)).by(
        sample_range, infer_range, bound_range, RANGE
    ),
    *map(_windowed, ("HannWindow", "HammingWindow", "BlackmanWindow")),
    Operator("Unique", Kind.PART, WHOLE, (F32, F64, I64, I8), ranks=ALONG).by(
        _sample_unique, _infer_unique, inverse=_UNIQUE
    ),
)
