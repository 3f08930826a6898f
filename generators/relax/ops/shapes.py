"""Shapes as values: sizes, dims read off a tensor, shapes that become tensors."""

from __future__ import annotations

from generators.relax.operator import Asking, Call, Likely, Operator, Want, number, shape_literal
from generators.relax.types import Tensor


def _size(asking: Asking, target: Tensor) -> Call:
    return Call((Want(Tensor(asking.float(), asking.shape(0, 3))),), target)


def _shape_to_tensor(asking: Asking, target: Tensor) -> Call | None:
    (count,) = target.shape
    if not isinstance(count, int) or count > 6:
        return None
    return Call((shape_literal(tuple(asking.dim() for _ in range(count))),), target)


def _shape_i(asking: Asking, target: Tensor) -> Call:
    shape = asking.shape(1, 3)
    return Call((Want(Tensor("float32", shape)), number(asking.draws.below(len(shape)))), target)


def _is_int64(told: Tensor) -> bool:
    return told.dtype == "int64"


OPERATORS = (
    Operator(
        "relax.size", lambda told: _is_int64(told) and not told.rank, _size, Likely.INTEGER, (0, 0), 0.5
    ),
    Operator(
        "relax.shape_to_tensor",
        lambda told: _is_int64(told) and told.rank == 1,
        _shape_to_tensor,
        Likely.INTEGER,
        ranks=(1, 1),
        weight=0.5,
    ),
)
