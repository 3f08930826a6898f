"""Operators of `com.microsoft` on quantised values: what onnxruntime puts in place of QDQ groups."""

from oracles.operators.pool import pooled
from oracles.operators.quantise import QUANTISED, fix_scale, fix_zero_point
from oracles.relation.arithmetic import ROUNDS, SUMS_INSIDE, WHOLE, Arithmetic, Rounding, symmetric
from oracles.relation.operator import Operator
from oracles.relation.program import ALONG, FLAT, IMAGE, RANKS, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import (
    shaped,
    whole_type,
)
from oracles.relation.types import (
    BOOL,
    F32,
    I8,
    U8,
    DType,
    Range,
    TensorType,
    broadcast,
    extent,
    replaced,
)


def _with_scale(scope: Scope, operand: Operand) -> tuple[Operand, Operand, Operand]:
    return operand, *_scaled(scope, operand.dtype)


def _scaled(scope: Scope, dtype: DType, magnitude: float = 1.0) -> tuple[Operand, Operand]:
    """A scale and a zero point."""
    return fix_scale(scope, (), magnitude), fix_zero_point(scope, dtype, ())


def _sample_pair(scope: Scope, focus: Operand) -> Call:
    other = scope.partner(focus)
    return Call((*_with_scale(scope, focus), *_with_scale(scope, other), *_scaled(scope, focus.dtype, 2.0)))


def _infer_pair(call: Call) -> tuple[TensorType, ...]:
    shape = broadcast(call.operand(0).shape, call.operand(3).shape)
    assert shape is not None
    return (TensorType(call.operand(0).dtype, shape),)


def _sample_activation(scope: Scope, focus: Operand) -> Call:
    return Call((*_with_scale(scope, focus), *_scaled(scope, focus.dtype)))


def _sample_leaky(scope: Scope, focus: Operand) -> Call:
    return _sample_activation(scope, focus)._replace(attributes={"alpha": scope.draws.pick((0.01, 0.2, 1.0))})


def _sample_softmax(scope: Scope, focus: Operand) -> Call:
    attributes: dict[str, Attribute] = {"axis": scope.axis(focus.rank), "opset": 13}
    return _sample_activation(scope, focus)._replace(attributes=attributes)


def _sample_where(scope: Scope, focus: Operand) -> Call | None:
    """A condition, and two branches with scales of their own."""
    condition, other = scope.partner(focus, dtype=BOOL), scope.partner(focus)
    if broadcast(condition.shape, focus.shape, other.shape) is None:
        return None
    parts = (*_with_scale(scope, focus), *_with_scale(scope, other))
    return Call((condition, *parts, *_scaled(scope, focus.dtype)))


def _infer_where(call: Call) -> tuple[TensorType, ...]:
    shape = broadcast(*(call.operand(index).shape for index in (0, 1, 4)))
    assert shape is not None
    return (TensorType(call.operand(1).dtype, shape),)


def _sample_concat(scope: Scope, focus: Operand) -> Call:
    axis = scope.axis(focus.rank)
    at = axis % focus.rank
    other = scope.supply(focus.dtype, replaced(focus.shape, at, scope.dim()))
    parts = (*_with_scale(scope, focus), *_with_scale(scope, other))
    return Call((*_scaled(scope, focus.dtype), *parts), {"axis": axis})


def _infer_concat(call: Call) -> tuple[TensorType, ...]:
    left, right = call.operand(2), call.operand(5)
    axis = call.integer("axis", 0) % left.rank
    total = left.shape[axis] + right.shape[axis]
    return (TensorType(left.dtype, replaced(left.shape, axis, total)),)


def _sample_dynamic(scope: Scope, focus: Operand) -> Call:
    """A float matrix by a quantised one."""
    columns, dtype = max(1, scope.dim()), scope.draws.pick(QUANTISED)
    weight = scope.supply(dtype, (focus.shape[-1], columns))
    operands: tuple[Operand, ...] = (focus, weight, fix_scale(scope, (), 1.0))
    if scope.draws.chance(0.6):
        operands += (fix_zero_point(scope, dtype, ()),)
    return Call(operands)


def _infer_dynamic(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(F32, (*call.operand(0).shape[:-1], call.operand(1).shape[-1])),)


def _bound_dynamic(call: Call) -> tuple[Range, ...]:
    """A quantised weight is at most 255 of its steps from its zero point."""
    focus = call.operand(0)
    return (symmetric(focus.range.magnitude * focus.shape[-1] * 256 * call.operand(2).range.magnitude * 1.1),)


def _sample_to_float(scope: Scope, focus: Operand) -> Call:
    columns = max(1, scope.dim())
    dtype = U8 if focus.dtype is U8 and scope.draws.chance(0.5) else I8
    weight = scope.supply(dtype, (focus.shape[-1], columns))
    scales = (fix_scale(scope, (), 1.0), fix_scale(scope, (), 1.0))
    points = (fix_zero_point(scope, focus.dtype, ()), fix_zero_point(scope, dtype, ()))
    return Call((focus, weight, *scales, *points))


def _bound_to_float(call: Call) -> tuple[Range, ...]:
    steps = call.operand(2).range.magnitude * call.operand(3).range.magnitude
    return (symmetric(256 * 256 * steps * call.operand(0).shape[-1]),)


_DYNAMIC = Arithmetic(Rounding.INSIDE, quantises=True)


def _entry(
    name: str,
    arithmetic: Arithmetic = ROUNDS,
    dtypes: tuple[DType, ...] = QUANTISED,
    ranks: range = RANKS,
    *,
    filled: bool = False,
) -> Operator:
    return Operator(f"com.microsoft.{name}", Kind.QUANTISE, arithmetic, dtypes, ranks=ranks, filled=filled)


OPERATORS = (
    *(_entry(name).by(_sample_pair, _infer_pair, whole_type, None) for name in ("QLinearAdd", "QLinearMul")),
    _entry("QLinearSigmoid").by(_sample_activation, bound=whole_type),
    _entry("QLinearLeakyRelu").by(_sample_leaky, bound=whole_type),
    _entry("QLinearSoftmax", ranks=ALONG, filled=True).by(_sample_softmax, bound=whole_type),
    _entry("QLinearWhere", WHOLE).by(
        _sample_where,
        _infer_where,
        lambda call: (extent(call.operand(1).dtype),),
        None,
    ),
    _entry("QLinearConcat", WHOLE, ranks=ALONG).by(
        _sample_concat,
        _infer_concat,
        lambda call: (extent(call.operand(2).dtype),),
        None,
    ),
    _entry("QLinearGlobalAveragePool", ranks=IMAGE, filled=True).by(
        _sample_activation, shaped(pooled), whole_type, None
    ),
    _entry("DynamicQuantizeMatMul", _DYNAMIC, (F32,), FLAT, filled=True).by(
        _sample_dynamic, _infer_dynamic, _bound_dynamic, None
    ),
    _entry("MatMulIntegerToFloat", SUMS_INSIDE, ranks=FLAT, filled=True).by(
        _sample_to_float, _infer_dynamic, _bound_to_float, None
    ),
)
