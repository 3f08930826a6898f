"""Placing the steps of a recipe one after another, each through the same gate as a single operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from generators.language.scope import Scope, is_in_budget
from oracles.operators import all_operators
from oracles.relation.operator import Operator
from oracles.relation.program import Attribute, Call, DoesNotFit, Operand
from oracles.relation.types import NUMPY, Range, TensorType, is_float

_SWAPPED = 0.3
_UNUSUAL = 0.2
_SHOWN = (0.0, 0.0, 0.15, 0.5)
"""The rate of inner values of a recipe that are outputs too: what takes its place must still give them."""
_COMMUTATIVE = frozenset(("Add", "Mul"))


@cache
def _by_name() -> Mapping[str, Operator]:
    return {operator.name: operator for operator in all_operators()}


class Steps:
    """Places steps while there is room; what does not fit raises `DoesNotFit`."""

    def __init__(self, scope: Scope, room: int) -> None:
        self.scope = scope
        self.room = room
        self._shown = scope.draws.pick(_SHOWN)

    def __call__(self, name: str, *operands: Operand, **attributes: Attribute) -> Operand:
        """The first result of one more node; of a commutative one the operands come in either order."""
        operator = _by_name()[name]
        if len(operands) == 2 and name in _COMMUTATIVE and self.scope.draws.chance(_SWAPPED):
            operands = operands[::-1]
        if not operator.takes(operands[0].dtype, operands[0].rank, self.scope.opset):
            raise DoesNotFit(name)
        return self.put(operator, Call(operands, attributes))

    def put(self, operator: Operator, call: Call) -> Operand:
        """The first result of one more node."""
        types, ranges = operator.infer(call), operator.bound(call)
        fits = all(is_in_budget(*of, bounds) for of, bounds in zip(types, ranges, strict=True))
        if self.room < 1 or not fits:
            raise DoesNotFit(operator.name)
        self.scope.afford(operator.kind, call, types)
        self.room -= 1
        results = operator.emit(self.scope, call, types, ranges)
        if self._shown and self.scope.draws.chance(self._shown):
            self.scope.shown.update(result.name for result in results)
        return results[0]

    def sampled(self, operator: Operator, focus: Operand) -> tuple[Operand, Call]:
        """The operator on the focus with what its sampler draws; the focus must lie in its domain."""
        domain = operator.domain
        call = None
        if domain is None or focus.range.is_within(domain):
            call = operator.sample(self.scope, focus)
        if call is None:
            raise DoesNotFit(operator.name)
        return self.put(operator, call), call

    def number(self, value: float, like: Operand) -> Operand:
        """A constant of the type of another operand: a scalar, now and then of one element in some dims."""
        draws = self.scope.draws
        if not draws.chance(_UNUSUAL):
            return self.scope.fix_scalar(value, like.dtype)
        return self.scope.fix(
            np.full((1,) * draws.between(1, max(like.rank, 1)), value, NUMPY[like.dtype]), like.dtype
        )

    def positive(self, value: Operand, least: float) -> Operand:
        """The value with what its definition says of it: rounding aside, it is at least this much."""
        return value._replace(range=Range(max(least, value.range.low), max(least, value.range.high)))


Definition = Callable[[Steps, Operand], Any]
"""A recipe over one value."""


def away_from_zero(operand: Operand) -> bool:
    """Whether one may divide by it."""
    return operand.range.magnitude_floor >= (0.1 if is_float(operand.dtype) else 1)


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
