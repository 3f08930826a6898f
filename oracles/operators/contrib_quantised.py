"""Operators of `com.microsoft` on quantised values: what onnxruntime puts in place of QDQ groups."""

from oracles.operators.pool import pooled
from oracles.operators.quantise import QUANTISED, fix_scale, fix_zero_point
from oracles.relation.arithmetic import ROUNDS, SUMS_INSIDE, WHOLE, Arithmetic, Rounding, symmetric
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import ALONG, FLAT, IMAGE, RANKS, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import (
    another_dim,
    gives_dtype,
    inverted,
    part_of,
    shaped,
    whole_type,
    with_more_dims,
)
from oracles.relation.types import (
    BOOL,
    F32,
    I8,
    U8,
    DType,
    Range,
    Shape,
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


def _pair(scope: Scope, left: Operand, right: Operand) -> Call:
    return Call((*_with_scale(scope, left), *_with_scale(scope, right), *_scaled(scope, left.dtype, 2.0)))


def _sample_pair(scope: Scope, focus: Operand) -> Call:
    return _pair(scope, focus, scope.partner(focus))


def _infer_pair(call: Call) -> tuple[TensorType, ...]:
    shape = broadcast(call.operand(0).shape, call.operand(3).shape)
    assert shape is not None
    return (TensorType(call.operand(0).dtype, shape),)


def _solve_pair(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    other = scope.supply(wanted.dtype, part_of(scope, wanted.shape))
    return _pair(scope, scope.supply(*wanted), other)


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
    return _where(scope, condition, focus, other)


def _where(scope: Scope, condition: Operand, left: Operand, right: Operand) -> Call:
    parts = (*_with_scale(scope, left), *_with_scale(scope, right))
    return Call((condition, *parts, *_scaled(scope, left.dtype)))


def _infer_where(call: Call) -> tuple[TensorType, ...]:
    shape = broadcast(*(call.operand(index).shape for index in (0, 1, 4)))
    assert shape is not None
    return (TensorType(call.operand(1).dtype, shape),)


def _solve_where(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    condition = scope.supply(BOOL, part_of(scope, wanted.shape))
    other = scope.supply(wanted.dtype, part_of(scope, wanted.shape))
    return _where(scope, condition, scope.supply(*wanted), other)


def _sample_concat(scope: Scope, focus: Operand) -> Call:
    axis = scope.axis(focus.rank)
    at = axis % focus.rank
    other = scope.supply(focus.dtype, replaced(focus.shape, at, scope.dim()))
    return _concat(scope, focus, other, axis)


def _concat(scope: Scope, left: Operand, right: Operand, axis: int) -> Call:
    parts = (*_with_scale(scope, left), *_with_scale(scope, right))
    return Call((*_scaled(scope, left.dtype), *parts), {"axis": axis})


def _infer_concat(call: Call) -> tuple[TensorType, ...]:
    left, right = call.operand(2), call.operand(5)
    axis = call.integer("axis", 0) % left.rank
    total = left.shape[axis] + right.shape[axis]
    return (TensorType(left.dtype, replaced(left.shape, axis, total)),)


def _solve_concat(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    axis = scope.draws.below(len(shape))
    cut = scope.draws.between(0, shape[axis])
    sizes = (cut, shape[axis] - cut)
    left, right = (scope.supply(wanted.dtype, replaced(shape, axis, n)) for n in sizes)
    return _concat(scope, left, right, axis)


def _solve_pool(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    dims = with_more_dims(scope, wanted.shape[:2], 2)
    return _sample_activation(scope, scope.supply(wanted.dtype, dims))


def _is_pooled(shape: Shape) -> bool:
    return len(shape) == 4 and set(shape[2:]) == {1}


def _dynamic(scope: Scope, focus: Operand, columns: int) -> Call:
    """A float matrix by a quantised one."""
    dtype = scope.draws.pick(QUANTISED)
    weight = scope.supply(dtype, (focus.shape[-1], columns))
    operands: tuple[Operand, ...] = (focus, weight, fix_scale(scope, (), 1.0))
    if scope.draws.chance(0.6):
        operands += (fix_zero_point(scope, dtype, ()),)
    return Call(operands)


def _sample_dynamic(scope: Scope, focus: Operand) -> Call:
    return _dynamic(scope, focus, max(1, scope.dim()))


def _infer_dynamic(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(F32, (*call.operand(0).shape[:-1], call.operand(1).shape[-1])),)


def _bound_dynamic(call: Call) -> tuple[Range, ...]:
    """A quantised weight is at most 255 of its steps from its zero point."""
    focus = call.operand(0)
    return (symmetric(focus.range.magnitude * focus.shape[-1] * 256 * call.operand(2).range.magnitude * 1.1),)


def _solve_dynamic(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    rows = wanted.shape[:-1]
    inner = another_dim(scope, (*rows, wanted.shape[-1]))
    return _dynamic(scope, scope.supply(F32, (*rows, inner)), wanted.shape[-1])


def _to_float(scope: Scope, focus: Operand, columns: int) -> Call:
    dtype = U8 if focus.dtype is U8 and scope.draws.chance(0.5) else I8
    weight = scope.supply(dtype, (focus.shape[-1], columns))
    scales = (fix_scale(scope, (), 1.0), fix_scale(scope, (), 1.0))
    points = (fix_zero_point(scope, focus.dtype, ()), fix_zero_point(scope, dtype, ()))
    return Call((focus, weight, *scales, *points))


def _sample_to_float(scope: Scope, focus: Operand) -> Call:
    return _to_float(scope, focus, max(1, scope.dim()))


def _bound_to_float(call: Call) -> tuple[Range, ...]:
    steps = call.operand(2).range.magnitude * call.operand(3).range.magnitude
    return (symmetric(256 * 256 * steps * call.operand(0).shape[-1]),)


def _solve_to_float(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    rows = wanted.shape[:-1]
    inner = another_dim(scope, (*rows, wanted.shape[-1]))
    focus = scope.supply(scope.draws.pick(operator.dtypes), (*rows, inner))
    return _to_float(scope, focus, wanted.shape[-1])


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
    *(
        _entry(name).by(_sample_pair, _infer_pair, whole_type, Inverse(gives_dtype, _solve_pair))
        for name in ("QLinearAdd", "QLinearMul")
    ),
    _entry("QLinearSigmoid").by(_sample_activation, bound=whole_type),
    _entry("QLinearLeakyRelu").by(_sample_leaky, bound=whole_type),
    _entry("QLinearSoftmax", ranks=ALONG, filled=True).by(_sample_softmax, bound=whole_type),
    _entry("QLinearWhere", WHOLE).by(
        _sample_where,
        _infer_where,
        lambda call: (extent(call.operand(1).dtype),),
        Inverse(gives_dtype, _solve_where),
    ),
    _entry("QLinearConcat", WHOLE, ranks=ALONG).by(
        _sample_concat,
        _infer_concat,
        lambda call: (extent(call.operand(2).dtype),),
        inverted(ALONG, _solve_concat),
    ),
    _entry("QLinearGlobalAveragePool", ranks=IMAGE, filled=True).by(
        _sample_activation, shaped(pooled), whole_type, inverted(_is_pooled, _solve_pool)
    ),
    _entry("DynamicQuantizeMatMul", _DYNAMIC, (F32,), FLAT, filled=True).by(
        _sample_dynamic, _infer_dynamic, _bound_dynamic, inverted(FLAT, _solve_dynamic)
    ),
    _entry("MatMulIntegerToFloat", SUMS_INSIDE, ranks=FLAT, filled=True).by(
        _sample_to_float, _infer_dynamic, _bound_to_float, inverted(FLAT, _solve_to_float, F32)
    ),
)
