"""Placing the steps of a recipe one after another, each through the same gate as a single operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from generators.language.scope import Scope, is_in_budget
from oracles.operators import all_operators
from oracles.relation.operator import Operator
from oracles.relation.program import Attribute, Call, Operand
from oracles.relation.scope import DoesNotFit
from oracles.relation.types import NUMPY, Range, is_float

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
