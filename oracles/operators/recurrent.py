"""Recurrent layers over a sequence."""

import math

from oracles.relation.arithmetic import SUMS_INSIDE, Arithmetic, Rounding, symmetric
from oracles.relation.open_checks import scales_more
from oracles.relation.operator import Inverse, Operator, Sampler
from oracles.relation.program import ALONG, CUBE, IMAGE, MAX_ELEMENTS, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import another_dim, inverted, when
from oracles.relation.types import F16, F32, DType, Range, Shape, TensorType

_STATE_RANGE = Range(-1, 1)
_GATES = ("Sigmoid", "Sigmoid", "HardSigmoid")
_STATES = ("Tanh", "Tanh", "Sigmoid", "HardSigmoid", "Softsign")


def _sampler(gates: int, states: int) -> Sampler:
    """Weights of `gates` matrices; bias, lengths and first states may be left out."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        if not focus.shape[0] or not focus.shape[2]:
            return None
        hidden = scope.draws.between(1, 5)
        return _layer(scope, focus, gates, states, hidden, scope.draws.pick((1, 1, 1, 2)))

    return sample


def _layer(scope: Scope, focus: Operand, gates: int, states: int, hidden: int, ways: int) -> Call:
    draws, dtype = scope.draws, focus.dtype
    length, batch, size = focus.shape
    direction = "bidirectional" if ways == 2 else draws.pick(("forward", "forward", "reverse"))
    operands: list[Operand | None] = [
        focus,
        scope.supply(dtype, (ways, gates * hidden, size)),
        scope.supply(dtype, (ways, gates * hidden, hidden)),
    ]
    if draws.chance(0.6):
        operands.append(scope.supply(dtype, (ways, 2 * gates * hidden)))
        operands += _start(scope, dtype, (ways, batch, hidden), length, states)
    attributes: dict[str, Attribute] = {"hidden_size": hidden}
    if direction != "forward" or draws.chance(0.3):
        attributes["direction"] = direction
    attributes |= _variant(scope, gates, ways)
    return Call(tuple(operands), attributes, draws.between(1, states + 1))


def _variant(scope: Scope, gates: int, ways: int) -> dict[str, Attribute]:
    """Other activations that keep a state within 1 in size, a clip, and what only one kind of layer has."""
    draws = scope.draws
    attributes: dict[str, Attribute] = {}
    if draws.chance(0.25):
        count = {4: 3, 3: 2, 1: 1}[gates]
        chosen = [
            draws.pick(_GATES if count > 1 and not at % count else _STATES) for at in range(ways * count)
        ]
        attributes["activations"] = tuple(chosen)
    if draws.chance(0.15):
        attributes["clip"] = draws.pick((0.5, 1.0, 6.0))
    if gates == 3 and draws.chance(0.4):
        attributes["linear_before_reset"] = draws.below(2)
    if gates == 4 and draws.chance(0.15):
        attributes["input_forget"] = draws.below(2)
    return attributes


_MOST_SIZE = 40
"""With the most hidden units and two directions, the weights stay in the budget."""


def _inverse(gates: int, states: int) -> Inverse:
    """Directions and hidden units are dims of the result."""

    def solve(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
        length, ways, batch, hidden = wanted.shape
        size = min(another_dim(scope, (length, batch)), _MOST_SIZE)
        focus = scope.supply(wanted.dtype, (length, batch, size))
        return _layer(scope, focus, gates, states, hidden, ways)

    return inverted(_is_layer, solve)


def _is_layer(shape: Shape) -> bool:
    return len(shape) == 4 and shape[0] > 0 and shape[1] in (1, 2) and 1 <= shape[3] <= 5


def _start(
    scope: Scope, dtype: DType, shape: tuple[int, int, int], length: int, states: int
) -> list[Operand | None]:
    """The lengths of the sequences, and the states to start from."""
    draws = scope.draws
    if draws.chance(0.5):
        return []
    lengths = scope.supply(DType.I32, (shape[1],), Range(1, length)) if draws.chance(0.5) else None
    return [lengths, *(scope.supply(dtype, shape, _STATE_RANGE) for _ in range(states))]


def _infer(call: Call) -> tuple[TensorType, ...]:
    length, batch, _ = call.operand(0).shape
    ways, _, hidden = call.operand(2).shape
    dtype = call.operand(0).dtype
    last = TensorType(dtype, (ways, batch, hidden))
    return (TensorType(dtype, (length, ways, batch, hidden)), last, last)[: call.results]


def _bound(call: Call) -> tuple[Range, ...]:
    """A hidden state is at most 1 in size; a cell's grows by at most 1 with every step."""
    cell = float(call.operand(0).shape[0] + 1)
    return (_STATE_RANGE, _STATE_RANGE, Range(-cell, cell))[: call.results]


def _sample_attention(scope: Scope, focus: Operand) -> Call:
    """The focus is the query: batch, heads, length, size of a head."""
    return _attend(scope, focus, max(1, scope.dim()))


def _attend(scope: Scope, query: Operand, size: int) -> Call:
    """Keys and values of one length; the values' heads have this size."""
    draws = scope.draws
    batch, heads, length, depth = query.shape
    other = another_dim(scope, (batch, heads, max(depth, size)))
    keys = scope.supply(query.dtype, (batch, heads, other, depth))
    operands: list[Operand] = [query, keys, scope.supply(query.dtype, (batch, heads, other, size))]
    attributes: dict[str, Attribute] = {"is_causal": 1} if draws.chance(0.3) else {}
    if not attributes and length * other <= MAX_ELEMENTS and draws.chance(0.3):
        operands.append(scope.supply(query.dtype, (length, other)))
    if draws.chance(0.3):
        attributes["scale"] = draws.pick((0.5, 1.0, 0.125))
    return Call(tuple(operands), attributes)


def _infer_attention(call: Call) -> tuple[TensorType, ...]:
    query, values = call.operand(0), call.operand(2)
    return (TensorType(query.dtype, (*query.shape[:3], values.shape[3])),)


def _bound_attention(call: Call) -> tuple[Range, ...]:
    """A weighted mean of the values; the scores must not overflow on the way."""
    query, keys = call.operand(0), call.operand(1)
    score = query.range.magnitude * keys.range.magnitude * query.shape[3]
    values = symmetric(call.operand(2).range.magnitude)
    return (values if score < 1e3 else symmetric(math.inf),)


def _solve_attention(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    query = scope.supply(wanted.dtype, (*wanted.shape[:3], another_dim(scope, wanted.shape[:3])))
    return _attend(scope, query, wanted.shape[3])


def _sample_rotary(scope: Scope, focus: Operand) -> Call | None:
    batch, _, length, depth = focus.shape
    if depth % 2:
        return None
    caches = [scope.supply(focus.dtype, (batch, length, depth // 2), Range(-1, 1)) for _ in range(2)]
    return Call((focus, *caches), {"interleaved": 1} if scope.draws.chance(0.4) else {})


def bound_rotary(call: Call) -> tuple[Range, ...]:
    """Pairs that are turned, by sines and cosines that round."""
    return (symmetric(2 * call.operand(0).range.magnitude),)


def _is_rotated(shape: Shape) -> bool:
    return len(shape) == 4 and not shape[3] % 2


def _sample_rms(scope: Scope, focus: Operand) -> Call:
    axis = scope.axis(focus.rank)
    attributes: dict[str, Attribute] = {"axis": axis}
    if scope.draws.chance(0.5):
        attributes["epsilon"] = scope.draws.pick((1e-5, 1e-3, 0.1))
    return Call((focus, scope.supply(focus.dtype, focus.shape[axis:])), attributes)


def _bound_rms(call: Call) -> tuple[Range, ...]:
    """At most the root of the count, before the scale; the squares must not overflow on the way."""
    focus = call.operand(0)
    if focus.range.magnitude > 100:
        return (symmetric(math.inf),)
    return (symmetric(math.sqrt(math.prod(focus.shape)) * call.operand(1).range.magnitude + 1),)


_MISFIT = {"a scale that does not broadcast to what is normalised": scales_more}
_NORMS = Arithmetic(Rounding.INSIDE, misfits=_MISFIT)


def _recurrent(name: str, gates: int, states: int) -> Operator:
    sample, inverse = _sampler(gates, states), _inverse(gates, states)
    return Operator(name, Kind.RECURRENT, SUMS_INSIDE, (F32,), sample, _infer, _bound, CUBE, inverse)


OPERATORS = (
    _recurrent("LSTM", 4, 2),
    _recurrent("GRU", 3, 1),
    _recurrent("RNN", 1, 1),
    Operator("Attention", Kind.LINEAR, SUMS_INSIDE, (F32, F16), ranks=IMAGE, filled=True, since=23).by(
        _sample_attention, _infer_attention, _bound_attention, inverted(IMAGE, _solve_attention)
    ),
    Operator(
        "RotaryEmbedding", Kind.ARITHMETIC, SUMS_INSIDE, (F32, F16), ranks=IMAGE, filled=True, since=23
    ).by(_sample_rotary, bound=bound_rotary, inverse=when(_is_rotated)),
    Operator("RMSNormalization", Kind.NORM, _NORMS, (F32, F16), ranks=ALONG, filled=True, since=23).by(
        _sample_rms, bound=_bound_rms
    ),
)
