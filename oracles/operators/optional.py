"""Optionals: made of a tensor, asked whether they hold one, and opened."""

from __future__ import annotations

import numpy as np

from oracles.operators.container import container_entry
from oracles.relation.arithmetic import WHOLE
from oracles.relation.inverses import recogniser
from oracles.relation.operator import (
    Inverse,
    Operator,
    same_range,
    sample_alone,
)
from oracles.relation.program import MAX_RANK, Call, Kind
from oracles.relation.scope import DoesNotFit, Scope
from oracles.relation.types import (
    ALL,
    BOOL,
    OPTIONALS,
    TENSORS,
    Range,
    TensorType,
    element,
    optional_of,
)

_OPTIONAL = tuple(dtype for dtype in TENSORS if optional_of(dtype))


def _infer_optional(call: Call) -> tuple[TensorType, ...]:
    made = optional_of(call.operand(0).dtype)
    if made is None:
        raise DoesNotFit("no optional")
    return (TensorType(made, call.operand(0).shape),)


def _solve_optional(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return Call((scope.supply(element(wanted.dtype), wanted.shape),))


def _infer_get(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(element(call.operand(0).dtype), call.operand(0).shape),)


def _recognise_get(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return wanted.dtype in _OPTIONAL or (opset >= 18 and wanted.dtype in ALL)


def _solve_get(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """Get the element of an optional, or from opset 18 on of a tensor."""
    made = optional_of(wanted.dtype)
    if made is not None and (scope.opset < 18 or (scope.takes_inputs and scope.draws.chance(0.5))):
        return Call((scope.supply(made, wanted.shape),))
    return Call((scope.supply(*wanted),))


def _solve_has(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return Call((scope.supply(scope.draws.pick(operator.dtypes_at(scope.opset)), scope.shape(2)),))


OPERATORS = (
    container_entry(
        "Optional",
        _OPTIONAL,
        sample_alone,
        _infer_optional,
        same_range,
        range(MAX_RANK + 1),
        Inverse(lambda operator, wanted, opset: wanted.dtype in OPTIONALS, _solve_optional),
        since=15,
    ),
    Operator(
        "OptionalGetElement",
        Kind.CONTAINER,
        WHOLE,
        OPTIONALS,
        infer=_infer_get,
        since=15,
        later={18: ALL},
        inverse=Inverse(_recognise_get, _solve_get),
    ),
    Operator(
        "OptionalHasElement",
        Kind.CONTAINER,
        WHOLE,
        OPTIONALS,
        infer=lambda call: (TensorType(BOOL, ()),),
        bound=lambda call: (Range(1, 1),),
        since=15,
        later={18: ALL},
        inverse=Inverse(recogniser(lambda shape: not shape, BOOL), _solve_has),
        content=lambda call: np.array(True),
    ),
)
