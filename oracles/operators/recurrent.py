"""Recurrent layers over a sequence."""

from __future__ import annotations

from oracles.relation.arithmetic import SUMS_INSIDE
from oracles.relation.inverses import another_dim, recogniser
from oracles.relation.operator import Inverse, Operator, Sampler
from oracles.relation.program import Attribute, Call, Kind, Operand
from oracles.relation.scope import Scope
from oracles.relation.types import F32, DType, Range, Shape, TensorType

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


def _inverse(gates: int, states: int) -> Inverse:
    """Directions and hidden units are dims of the result."""

    def solve(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
        length, ways, batch, hidden = wanted.shape
        focus = scope.supply(wanted.dtype, (length, batch, another_dim(scope, (length, batch))))
        return _layer(scope, focus, gates, states, hidden, ways)

    return Inverse(recogniser(_is_layer), solve)


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


_SEQUENCE = range(3, 4)

OPERATORS = (
    Operator(
        "LSTM",
        Kind.RECURRENT,
        SUMS_INSIDE,
        (F32,),
        _sampler(4, 2),
        _infer,
        _bound,
        _SEQUENCE,
        inverse=_inverse(4, 2),
    ),
    Operator(
        "GRU",
        Kind.RECURRENT,
        SUMS_INSIDE,
        (F32,),
        _sampler(3, 1),
        _infer,
        _bound,
        _SEQUENCE,
        inverse=_inverse(3, 1),
    ),
    Operator(
        "RNN",
        Kind.RECURRENT,
        SUMS_INSIDE,
        (F32,),
        _sampler(1, 1),
        _infer,
        _bound,
        _SEQUENCE,
        inverse=_inverse(1, 1),
    ),
)
