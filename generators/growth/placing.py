"""Putting one node into a program: what an operator takes, gives and costs."""

from __future__ import annotations

from generators.language.scope import Scope, is_in_budget
from oracles.relation.operator import Operator
from oracles.relation.program import Call, Operand
from oracles.relation.scope import DoesNotFit
from oracles.relation.types import TensorType


def apply(scope: Scope, operator: Operator, focus: Operand) -> bool:
    """Use the operator on the focus; False when it declines or its results leave the budget."""
    try:
        call = operator.sample(scope, focus)
    except DoesNotFit:
        return False
    return call is not None and place(scope, operator, call) is not None


def place(scope: Scope, operator: Operator, call: Call) -> tuple[Operand, ...] | None:
    """Add the call as a node; None when a result leaves the budget."""
    types, ranges = operator.infer(call), operator.bound(call)
    if not all(is_in_budget(*of, bounds) for of, bounds in zip(types, ranges, strict=True)):
        return None
    try:
        scope.afford(operator.kind, call, types)
    except DoesNotFit:
        return None
    return operator.emit(scope, call, types, ranges)


def place_wanted(scope: Scope, operator: Operator, wanted: TensorType) -> Operand | None:
    """The operator's result of the wanted type; None when its domain or the budget is left.

    What a call that is declined had created stays in the scope for the caller to take back.
    """
    try:
        call = operator.solve(scope, wanted)
        operands = call.present
        domain = operator.domain
        if domain is not None and not any(operand.range.is_within(domain) for operand in operands):
            return None
        placed = place(scope, operator, call)
    except DoesNotFit:
        return None
    return placed[0] if placed else None
