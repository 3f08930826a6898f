"""Reductions along axes, and what else looks along one axis: sorting and scanning."""

import math
from collections.abc import Mapping
from dataclasses import replace

from oracles.relation.arithmetic import WHOLE, Arithmetic, Rounding, power, symmetric, within_type
from oracles.relation.edges import TYPE, WIDE, Edges
from oracles.relation.open_checks import INEXACT, is_unsorted, ranks_nan
from oracles.relation.operator import Inverse, Operator, RangeRule, Sampler, averaged_range, same_range
from oracles.relation.program import ALONG, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import (
    axes_back,
    can_be_reduced,
    from_either_end,
    gives_dtype,
    inverted,
    shaped,
    stretched,
    with_supplied,
)
from oracles.relation.types import (
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    I8,
    I32,
    I64,
    U8,
    DType,
    Range,
    Shape,
    TensorType,
    replaced,
)

_SUMMED = (F32, F64, F16, I32, I64)


def _whole_axes(call: Call) -> tuple[int, ...]:
    """The axes that a reduction reduces, counted from the front."""
    rank = call.operand(0).rank
    axes = call.ints(1) or call.tuple_of("axes", ())
    if not axes:
        return () if call.attributes.get("noop_with_empty_axes") else tuple(range(rank))
    return tuple(axis % rank for axis in axes)


def _reduced(call: Call) -> Shape:
    focus, axes = call.operand(0), set(_whole_axes(call))
    if call.attributes.get("keepdims", 1):
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(focus.shape))
    return tuple(dim for axis, dim in enumerate(focus.shape) if axis not in axes)


def _reduced_count(call: Call) -> int:
    return math.prod(call.operand(0).shape[axis] for axis in _whole_axes(call))


def _sampler(axes_operand_since: int, keeps_empty: bool = False) -> Sampler:
    """Axes as an attribute, from some opset on as an operand; left out, they are all axes."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        draws = scope.draws
        attributes: dict[str, Attribute] = {}
        if draws.chance(0.7):
            attributes["keepdims"] = draws.below(2)
        operands: tuple[Operand | None, ...] = (focus,)
        if focus.rank and draws.chance(0.85):
            axes = scope.axes(focus.rank, 1, min(focus.rank, 3))
            if scope.opset >= axes_operand_since:
                operands = (focus, scope.fix_ints(axes))
            else:
                attributes["axes"] = axes
        elif scope.opset >= axes_operand_since and draws.chance(0.3):
            attributes["noop_with_empty_axes"] = 1
        call = Call(operands, attributes)
        return call if keeps_empty or _reduced_count(call) else None

    return sample


def _inverse(axes_operand_since: int) -> Inverse:
    """Dims of one may have been reduced, or any dims may be gone; or, with no axes, nothing happens."""

    def recognise(operator: Operator, wanted: TensorType, opset: int) -> bool:
        noop = opset >= axes_operand_since
        return gives_dtype(operator, wanted, opset) and (noop or can_be_reduced(wanted.shape))

    def solve(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
        found = axes_back(scope, wanted.shape)
        if found is None:
            return Call((scope.supply(*wanted, operator.domain),), {"noop_with_empty_axes": 1})
        shape, axes, keeps = found
        axes = from_either_end(scope, axes, len(shape))
        focus = scope.supply(wanted.dtype, shape, operator.domain)
        keepdims: dict[str, Attribute] = {"keepdims": int(keeps)}
        if scope.opset >= axes_operand_since:
            return Call((focus, scope.fix_ints(axes)), keepdims)
        return Call((focus,), {**keepdims, "axes": axes})

    return Inverse(recognise, solve)


def _solve_arg(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    found = axes_back(scope, wanted.shape, 1)
    assert found is not None
    shape, (axis,), keeps = found
    focus = scope.supply(scope.draws.pick(operator.types_in(scope)), shape)
    return Call((focus,), {"axis": axis, "keepdims": int(keeps)})


def _solve_top(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    axis, _, source = stretched(scope, wanted)
    call = with_supplied(scope, wanted, source, scope.fix_ints((wanted.shape[axis],)))
    return call._replace(attributes={"axis": axis}, results=2)


def _bound_sum(call: Call) -> tuple[Range, ...]:
    focus, count = call.operand(0), _reduced_count(call)
    return (within_type(focus.dtype, Range(focus.range.low * count, focus.range.high * count)),)


def _bound_prod(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    size = power(Range(1, max(1.0, focus.range.magnitude)), Range(0, _reduced_count(call))).high
    return (within_type(focus.dtype, symmetric(size)),)


def _bound_norm(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    return (within_type(focus.dtype, Range(0, _reduced_count(call) * (focus.range.magnitude + 1.0))),)


def _bound_squares(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    return (within_type(focus.dtype, Range(0, _reduced_count(call) * (focus.range.magnitude**2.0 + 1))),)


def _bound_log_sum(call: Call) -> tuple[Range, ...]:
    low, high, _ = call.operand(0).range
    return (Range(math.log(low), math.log(max(high, low) * max(_reduced_count(call), 1))),)


def _bound_log_sum_exp(call: Call) -> tuple[Range, ...]:
    low, high, _ = call.operand(0).range
    return (Range(low, high + math.log(max(_reduced_count(call), 1))),)


def _sample_arg(scope: Scope, focus: Operand) -> Call | None:
    draws = scope.draws
    axis = scope.axis(focus.rank)
    if not focus.shape[axis]:
        return None
    attributes: dict[str, Attribute] = {"axis": axis, "keepdims": draws.below(2)}
    if draws.chance(0.3):
        attributes["select_last_index"] = 1
    return Call((focus,), attributes)


def _placed(call: Call) -> Shape:
    focus, axis = call.operand(0), call.integer("axis", 0) % call.operand(0).rank
    return replaced(focus.shape, axis, *(1,) * call.integer("keepdims", 1))


def _bound_arg(call: Call) -> tuple[Range, ...]:
    return (Range(0, call.operand(0).shape[call.integer("axis", 0)] - 1),)


def _sample_cumsum(scope: Scope, focus: Operand) -> Call:
    draws = scope.draws
    attributes: dict[str, Attribute] = {
        name: draws.below(2) for name in ("exclusive", "reverse") if draws.chance(0.5)
    }
    return Call((focus, scope.fix_scalar(scope.axis(focus.rank), draws.pick((I32, I64)))), attributes)


def _bound_cumsum(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    count = max(focus.shape, default=1)
    total = symmetric(focus.range.magnitude * max(count, 1))
    return (within_type(focus.dtype, total),)


def _sample_top(scope: Scope, focus: Operand) -> Call:
    draws = scope.draws
    axis = scope.axis(focus.rank)
    count = scope.fix_ints([draws.between(min(1, focus.shape[axis]), focus.shape[axis])])
    attributes: dict[str, Attribute] = {"axis": axis}
    if draws.chance(0.5):
        attributes["largest"] = draws.below(2)
    return Call((focus, count), attributes, 2)


def _infer_top(call: Call) -> tuple[TensorType, ...]:
    focus, axis = call.operand(0), call.integer("axis", -1)
    shape = list(focus.shape)
    (shape[axis],) = call.ints(1) or (0,)
    return TensorType(focus.dtype, tuple(shape)), TensorType(I64, tuple(shape))


def _bound_top(call: Call) -> tuple[Range, ...]:
    focus, axis = call.operand(0), call.integer("axis", -1)
    return focus.range, Range(0, max(focus.shape[axis] - 1, 0))


def _reduction(
    name: str,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    bound: RangeRule = same_range,
    domain: Range | None = None,
    *,
    axes_operand_since: int = 18,
    keeps_empty: bool = False,
    later: Mapping[int, tuple[DType, ...]] | None = None,
    edges: Edges = TYPE,
) -> Operator:
    sample = _sampler(axes_operand_since, keeps_empty)
    return Operator(name, Kind.REDUCE, arithmetic, dtypes, domain=domain, later=later or {}, edges=edges).by(
        sample, shaped(_reduced), bound, _inverse(axes_operand_since)
    )


_SUMS = Arithmetic(Rounding.TERMS, reads_axes=True)
_LOGARITHMS = Arithmetic(Rounding.LOGARITHM, opens=INEXACT, reads_axes=True)
_MOST = Arithmetic(Rounding.NOTHING, reads_axes=True)
_FOUND = (*_SUMMED, I8, U8)

OPERATORS = (
    _reduction(
        "ReduceSum",
        replace(_SUMS, keeps_whole=True),
        _SUMMED,
        _bound_sum,
        axes_operand_since=13,
        keeps_empty=True,
        edges=WIDE,
    ),
    _reduction("ReduceMean", replace(_SUMS, opens=INEXACT), _SUMMED, averaged_range),
    *(
        _reduction(name, _MOST, _FOUND, later={20: (BOOL,)}, edges=WIDE)
        for name in ("ReduceMax", "ReduceMin")
    ),
    _reduction("ReduceProd", Arithmetic(Rounding.INSIDE, reads_axes=True), _SUMMED, _bound_prod),
    _reduction("ReduceL1", _SUMS, _SUMMED, _bound_norm, keeps_empty=True),
    _reduction("ReduceL2", replace(_SUMS, opens=INEXACT), _SUMMED, _bound_norm, keeps_empty=True),
    _reduction("ReduceSumSquare", _SUMS, _SUMMED, _bound_squares, keeps_empty=True),
    _reduction("ReduceLogSum", _LOGARITHMS, FLOATS, _bound_log_sum, Range(0.05, math.inf)),
    _reduction("ReduceLogSumExp", _LOGARITHMS, FLOATS, _bound_log_sum_exp, Range(-80, 80)),
    *(
        Operator(name, Kind.REDUCE, WHOLE, _FOUND, ranks=ALONG, edges=WIDE).by(
            _sample_arg,
            shaped(_placed, lambda call: I64),
            _bound_arg,
            inverted(can_be_reduced, _solve_arg, I64),
        )
        for name in ("ArgMax", "ArgMin")
    ),
    Operator(
        "CumSum", Kind.REDUCE, Arithmetic(Rounding.TERMS, keeps_whole=True), (F32, F64, I32, I64), ranks=ALONG
    ).by(_sample_cumsum, bound=_bound_cumsum),
    Operator(
        "TopK",
        Kind.REDUCE,
        Arithmetic(Rounding.NOTHING, opens={"in no order": is_unsorted, "NaN in order": ranks_nan}),
        (F32, F64, I32, I64),
        ranks=ALONG,
    ).by(_sample_top, _infer_top, _bound_top, inverted(ALONG, _solve_top)),
)
