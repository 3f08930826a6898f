"""Recurrent layers over a sequence."""

from __future__ import annotations

from generators.scope import Scope
from generators.spec import Attribute, Call, Kind, Operand, Operator, Sampler
from generators.types import F32, DType, Range, TensorType

_STATE_RANGE = Range(-1, 1)


def _sampler(gates: int, states: int) -> Sampler:
    """Weights of `gates` matrices; bias, lengths and first states may be left out."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        draws, dtype = scope.draws, focus.dtype
        length, batch, size = focus.shape
        if not length or not size:
            return None
        hidden = draws.between(1, 5)
        direction = draws.pick(("forward", "forward", "reverse", "bidirectional"))
        ways = 2 if direction == "bidirectional" else 1
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
        return Call(tuple(operands), attributes, draws.between(1, states + 1))

    return sample


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
    Operator("LSTM", Kind.RECURRENT, (F32,), _sampler(4, 2), _infer, _bound, _SEQUENCE),
    Operator("GRU", Kind.RECURRENT, (F32,), _sampler(3, 1), _infer, _bound, _SEQUENCE),
    Operator("RNN", Kind.RECURRENT, (F32,), _sampler(1, 1), _infer, _bound, _SEQUENCE),
)
