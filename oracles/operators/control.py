"""Control flow: the graphs inside are grown like a program, and use what is outside.

A float that goes round a loop keeps inside bounds that hold for every trip: where the body does not keep it
there by itself, its last node clips it.
"""

from collections.abc import Callable

import numpy as np

from oracles.operators.container import container_entry
from oracles.relation.arithmetic import WHOLE, hull
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import (
    ALONG,
    MAX_ELEMENTS,
    MAX_RANK,
    RANKS,
    Attribute,
    Call,
    DoesNotFit,
    DTypeFamily,
    Kind,
    Operand,
    Scope,
    volume,
)
from oracles.relation.rules import inside, inverted, same_shape, shaped
from oracles.relation.types import (
    ALL,
    BOOL,
    I64,
    OPTIONALS,
    TENSORS,
    TRUTH,
    DType,
    Range,
    Shape,
    TensorType,
    element,
    extent,
    is_float,
    optional_of,
    replaced,
)

_MOST_TRIPS = 4
_CARRIED = Range(-4, 4)


def _used(inner: Scope, name: str, *operands: Operand) -> Operand:
    """The result of one more node of a body."""
    placed = inner.use(name, Call(operands))
    if placed is None:
        raise DoesNotFit(name)
    return placed[0]


def _kept(inner: Scope, value: Operand, bounds: Range) -> Operand:
    """Bring a float within the bounds; integers wrap around within those of their type."""
    if value.range.is_within(bounds):
        return value
    limits = tuple(inner.fix_scalar(limit, value.dtype) for limit in (bounds.low, bounds.high))
    kept = _used(inner, "Clip", value, *limits)
    if not kept.range.is_within(bounds):
        raise DoesNotFit("bounds")
    return kept


def _sample_if(scope: Scope, focus: Operand) -> Call | None:
    """One branch goes on from the focus; the other has results of the same types."""
    draws = scope.draws
    return _branches(scope, lambda inner: inner.grow(focus, draws.between(1, 3))[-draws.pick((1, 1, 2)) :])


def _branches(scope: Scope, grow: Callable[[Scope], list[Operand]]) -> Call | None:
    condition, first = scope.supply(BOOL, ()), scope.inside()
    results = grow(first)
    if not results:
        return None
    first.keep_names()
    second = scope.inside()
    others = [second.wanted(result.type) for result in results]
    bodies = [first.close((), results, 1), second.close((), others, 1)]
    if scope.draws.chance(0.5):
        bodies.reverse()
    return Call((condition,), {"then_branch": bodies[0], "else_branch": bodies[1]}, len(results))


def _infer_if(call: Call) -> tuple[TensorType, ...]:
    return tuple(operand.type for operand in call.body("then_branch").outputs)


def _bound_if(call: Call) -> tuple[Range, ...]:
    branches = call.body("then_branch").outputs, call.body("else_branch").outputs
    return tuple(hull((a.range, b.range)) for a, b in zip(*branches, strict=True))


def _solve_if(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
    return _branches(scope, lambda inner: [inner.wanted(wanted)])


def _argument(inner: Scope, dtype: DType, shape: Shape, bounds: Range) -> Operand:
    """An input of a body."""
    operand = Operand(inner.fresh_name(), dtype, shape, bounds)
    inner.pool.append(operand)
    return operand


def _invariant(value: Operand) -> Range:
    """Bounds that the value keeps on every trip."""
    if not is_float(value.dtype):
        return extent(value.dtype)._replace(away=0.0)
    return hull((value.range, _CARRIED))._replace(away=0.0)


def _round(inner: Scope, state: Operand, bounds: Range, nodes: int) -> tuple[Operand, list[Operand]]:
    """The loop's next state, and the nodes that were grown to compute it."""
    grown = inner.grow(state, nodes)
    same = [value for value in grown if value.type == state.type]
    following = same[-1] if same else inner.wanted(state.type)
    return _kept(inner, following, bounds), grown


def _collected(inner: Scope, grown: list[Operand], state: Operand, steps: int) -> list[Operand]:
    """A value of each step; the state itself as often as an inner value is an output too."""
    found = [one for one in grown if one.rank < MAX_RANK and volume(one.shape) * steps <= MAX_ELEMENTS]
    if not inner.draws.chance(inner.profile.shared):
        found = [one for one in found if one.name != state.name]
    return [inner.draws.pick(found)] if found else []


def _sample_loop(scope: Scope, focus: Operand) -> Call | None:
    """The focus goes round; now and then a value of each trip is collected."""
    return _loop(scope, focus) if focus.dtype in ALL else None


def _loop(scope: Scope, focus: Operand) -> Call:
    draws, bounds = scope.draws, _invariant(focus)
    trips = draws.between(0, _MOST_TRIPS)
    operands = (
        scope.fix_scalar(trips, I64),
        scope.fix(np.array(True), BOOL) if draws.chance(0.5) else None,
        focus,
    )
    inner = scope.inside()
    count = _argument(inner, I64, (), Range(0, _MOST_TRIPS))
    go_on = _argument(inner, BOOL, (), TRUTH)
    state = _argument(inner, focus.dtype, focus.shape, bounds)
    following, grown = _round(inner, state, bounds, draws.between(1, 3))
    last = draws.between(0, _MOST_TRIPS) if draws.chance(0.3) else None
    if last is None:
        going = _used(inner, "Identity", go_on)
    else:
        going = _used(inner, "Less", count, inner.fix_scalar(last, I64))
        trips = min(trips, last + 1)
    collected = _collected(inner, grown, following, _MOST_TRIPS) if draws.chance(0.4) else []
    body = inner.close((count, go_on, state), (going, following, *collected), trips)
    return Call(operands, {"body": body}, 1 + len(collected))


def _infer_loop(call: Call) -> tuple[TensorType, ...]:
    body = call.body("body")
    _, state, *collected = body.outputs
    return (state.type, *(TensorType(one.dtype, (body.trips, *one.shape)) for one in collected))


def _bound_loop(call: Call) -> tuple[Range, ...]:
    body = call.body("body")
    _, _, *collected = body.outputs
    return (body.inputs[2].range, *(one.range for one in collected))


def _solve_loop(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return _loop(scope, scope.supply(*wanted))


def _sample_scan(scope: Scope, focus: Operand) -> Call | None:
    """A state goes along an axis of the focus, forwards or backwards; each step gives a slice of a result."""
    axis = scope.axis(focus.rank)
    if not focus.shape[axis]:
        return None
    return _scan(scope, scope.supply(scope.draws.pick(scope.profile.dtypes), scope.shape(2)), focus, axis)


def _scan(scope: Scope, state: Operand, scanned: Operand, axis: int) -> Call | None:
    if state.dtype not in ALL:
        return None
    draws, bounds = scope.draws, _invariant(state)
    inner = scope.inside()
    held = _argument(inner, state.dtype, state.shape, bounds)
    at = axis % scanned.rank
    piece = _argument(inner, scanned.dtype, replaced(scanned.shape, at), scanned.range)
    grown = inner.grow(piece, draws.between(1, 2))
    following, more = _round(inner, held, bounds, draws.between(1, 2))
    steps = scanned.shape[at]
    collected = _collected(inner, [*grown, *more], following, steps)
    attributes: dict[str, Attribute] = {
        "body": inner.close((held, piece), (following, *collected), steps),
        "num_scan_inputs": 1,
    }
    if axis or draws.chance(0.3):
        attributes["scan_input_axes"] = (axis,)
    if draws.chance(0.4):
        attributes["scan_input_directions"] = (draws.below(2),)
    if collected and draws.chance(0.4):
        attributes["scan_output_directions"] = (draws.below(2),)
        attributes["scan_output_axes"] = (draws.between(-collected[0].rank - 1, collected[0].rank),)
    return Call((state, scanned), attributes, 1 + len(collected))


def _infer_scan(call: Call) -> tuple[TensorType, ...]:
    body = call.body("body")
    state, *collected = body.outputs
    (axis,) = call.tuple_of("scan_output_axes", (0,))
    return (state.type, *(_stacked(one, axis, body.trips) for one in collected))


def _stacked(one: Operand, axis: int, steps: int) -> TensorType:
    axis %= one.rank + 1
    return TensorType(one.dtype, (*one.shape[:axis], steps, *one.shape[axis:]))


def _bound_scan(call: Call) -> tuple[Range, ...]:
    body = call.body("body")
    return (body.inputs[0].range, *(one.range for one in body.outputs[1:]))


def _solve_scan(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
    draws = scope.draws
    steps = draws.between(1, 3)
    scanned = scope.supply(draws.pick((wanted.dtype, I64)), (steps, *scope.shape(1)))
    return _scan(scope, scope.supply(*wanted), scanned, 0)


_OPTIONAL = tuple(dtype for dtype in TENSORS if optional_of(dtype))


def _infer_optional(call: Call) -> tuple[TensorType, ...]:
    made = optional_of(call.operand(0).dtype)
    if made is None:
        raise DoesNotFit("no optional")
    return (TensorType(made, call.operand(0).shape),)


def _solve_optional(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return Call((scope.supply(element(wanted.dtype), wanted.shape),))


def _is_of_optional(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return wanted.dtype in _OPTIONAL or (opset >= 18 and wanted.dtype in ALL)


def _solve_get(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """Get the element of an optional, or from opset 18 on of a tensor."""
    made = optional_of(wanted.dtype)
    if made is not None and (scope.opset < 18 or (scope.takes_inputs and scope.draws.chance(0.5))):
        return Call((scope.supply(made, wanted.shape),))
    return Call((scope.supply(*wanted),))


def _solve_has(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return Call((scope.supply(scope.draws.pick(operator.dtypes_at(scope.opset)), scope.shape(2)),))


def _control(name: str, ranks: range = RANKS) -> Operator:
    return Operator(name, Kind.CONTROL, WHOLE, ALL, ranks=ranks, realm=DTypeFamily.CONTROL)


OPERATORS = (
    _control("If").by(_sample_if, _infer_if, _bound_if, inverted(RANKS, _solve_if, *ALL)),
    _control("Loop").by(_sample_loop, _infer_loop, _bound_loop, inverted(RANKS, _solve_loop, *ALL)),
    _control("Scan", ALONG).by(_sample_scan, _infer_scan, _bound_scan, inverted(RANKS, _solve_scan, *ALL)),
    container_entry("Optional", _OPTIONAL, RANKS, 15).by(
        infer=_infer_optional, inverse=inverted(RANKS, _solve_optional, *OPTIONALS)
    ),
    Operator("OptionalGetElement", Kind.CONTAINER, WHOLE, OPTIONALS, since=15, later={18: ALL}).by(
        infer=shaped(same_shape, lambda call: element(call.operand(0).dtype)),
        inverse=Inverse(_is_of_optional, _solve_get),
    ),
    Operator("OptionalHasElement", Kind.CONTAINER, WHOLE, OPTIONALS, since=15, later={18: ALL}).by(
        infer=lambda call: (TensorType(BOOL, ()),),
        bound=inside(1, 1),
        inverse=inverted(range(1), _solve_has, BOOL),
        content=lambda call: np.array(True),
    ),
)
