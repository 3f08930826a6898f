"""Placing the steps of a recipe one after another, each through the same gate as a single operator.

A compiler rewrites neighbours, so neighbours that it knows should meet more often than by chance: an
activation after a linear operator, a chain of moves, a cast there and back. The weights know classes only;
within a class every operator that takes the type is as likely as any other.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from generators.language.profile import Profile
from generators.language.scope import Scope
from generators.language.values import RandomSource
from oracles.operators import all_operators, aten_operators, find_operator
from oracles.relation.edges import TYPE
from oracles.relation.operator import Operator
from oracles.relation.program import (
    LAST_OPSET,
    UNTYPED_REALMS,
    Attribute,
    Call,
    DoesNotFit,
    DTypeFamily,
    Kind,
    Operand,
)
from oracles.relation.types import ALL, DType, TensorType, is_float

_SWAPPED = 0.3
_SHOWN = (0.0, 0.0, 0.15, 0.5)
"""The rate of inner values of a recipe that are outputs too: what takes its place must still give them."""
_COMMUTATIVE = frozenset(("Add", "Mul"))


class Steps:
    """Places steps while there is room; what does not fit raises `DoesNotFit`."""

    def __init__(self, scope: Scope, room: int) -> None:
        self.scope = scope
        self.room = room
        self._shown = scope.draws.pick(_SHOWN)

    def __call__(self, name: str, *operands: Operand, **attributes: Attribute) -> Operand:
        """The first result of one more node; of a commutative one the operands come in either order."""
        operator = find_operator(name)
        if len(operands) == 2 and name in _COMMUTATIVE and self.scope.draws.chance(_SWAPPED):
            operands = operands[::-1]
        if not operator.takes(operands[0].dtype, operands[0].rank, self.scope.opset):
            raise DoesNotFit(name)
        return self.put(operator, Call(operands, attributes))

    def put(self, operator: Operator, call: Call) -> Operand:
        """The first result of one more node."""
        types, ranges = self.scope.results(operator, call)
        if self.room < 1:
            raise DoesNotFit(operator.name)
        self.scope.afford(operator.kind, call, types)
        self.room -= 1
        results = operator.emit(self.scope, call, types, ranges)
        if self._shown and self.scope.draws.chance(self._shown):
            self.scope.shown.update(result.name for result in results)
        return results[0]

    def sampled(self, operator: Operator, focus: Operand) -> Operand:
        """The operator on the focus with what its sampler draws; the focus must lie in its domain."""
        call = operator.sample(self.scope, focus) if is_defined(operator, focus) else None
        if call is None:
            raise DoesNotFit(operator.name)
        return self.put(operator, call)


Definition = Callable[[Steps, Operand], Any]
"""A recipe over one value."""


def is_defined(operator: Operator, focus: Operand) -> bool:
    """Whether a value lies in an operator's domain."""
    return operator.domain is None or focus.range.is_within(operator.domain)


def away_from_zero(operand: Operand) -> bool:
    """Whether one may divide by it."""
    return operand.range.magnitude_floor >= (0.1 if is_float(operand.dtype) else 1)


def apply(scope: Scope, operator: Operator, focus: Operand) -> bool:
    """Use the operator on the focus; False when it declines or its results leave the budget."""
    try:
        call = operator.sample(scope, scope.at_edge(operator, focus))
    except DoesNotFit:
        return False
    finally:
        scope.edges = TYPE
    return call is not None and place(scope, operator, call) is not None


def place(scope: Scope, operator: Operator, call: Call) -> tuple[Operand, ...] | None:
    """Add the call as a node; None when a result leaves the budget."""
    try:
        types, ranges = scope.results(operator, call)
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
        if operator.domain is not None and not any(is_defined(operator, each) for each in call.present):
            return None
        placed = place(scope, operator, call)
    except DoesNotFit:
        return None
    return placed[0] if placed else None


_WEIGHT: dict[Kind, float] = {
    Kind.ACTIVATION: 1.2,
    Kind.MATH: 1.2,
    Kind.ARITHMETIC: 1.6,
    Kind.COMPARE: 0.4,
    Kind.LOGIC: 0.6,
    Kind.REDUCE: 1.0,
    Kind.LINEAR: 1.2,
    Kind.POOL: 0.8,
    Kind.NORM: 1.0,
    Kind.LAYOUT: 1.4,
    Kind.PAD: 1.0,
    Kind.PART: 1.4,
    Kind.CAST: 0.5,
    Kind.QUANTISE: 0.6,
    Kind.RECURRENT: 0.15,
    Kind.RESAMPLE: 0.2,
    Kind.CONTROL: 0.6,
    Kind.CONTAINER: 1.0,
    Kind.TEXT: 1.0,
}

_AFFINITY: dict[tuple[Kind | None, Kind], float] = {
    (Kind.LINEAR, Kind.ACTIVATION): 4,
    (Kind.LINEAR, Kind.ARITHMETIC): 3,
    (Kind.LINEAR, Kind.NORM): 4,
    (Kind.LINEAR, Kind.QUANTISE): 3,
    (Kind.NORM, Kind.ACTIVATION): 3,
    (Kind.NORM, Kind.LINEAR): 2,
    (Kind.NORM, Kind.ARITHMETIC): 2,
    (Kind.ACTIVATION, Kind.ACTIVATION): 3,
    (Kind.ACTIVATION, Kind.LINEAR): 2,
    (Kind.ACTIVATION, Kind.ARITHMETIC): 2,
    (Kind.ACTIVATION, Kind.QUANTISE): 3,
    (Kind.ARITHMETIC, Kind.ARITHMETIC): 3,
    (Kind.ARITHMETIC, Kind.ACTIVATION): 2,
    (Kind.MATH, Kind.ARITHMETIC): 2,
    (Kind.MATH, Kind.MATH): 2,
    (Kind.LAYOUT, Kind.LAYOUT): 3,
    (Kind.LAYOUT, Kind.LINEAR): 4,
    (Kind.LAYOUT, Kind.PART): 2,
    (Kind.PART, Kind.PART): 2,
    (Kind.PART, Kind.LAYOUT): 2,
    (Kind.PAD, Kind.PAD): 3,
    (Kind.PAD, Kind.LINEAR): 4,
    (Kind.PAD, Kind.POOL): 8,
    (Kind.POOL, Kind.LINEAR): 2,
    (Kind.POOL, Kind.LAYOUT): 2,
    (Kind.REDUCE, Kind.ARITHMETIC): 3,
    (Kind.REDUCE, Kind.REDUCE): 2,
    (Kind.REDUCE, Kind.LAYOUT): 2,
    (Kind.CAST, Kind.CAST): 6,
    (Kind.QUANTISE, Kind.QUANTISE): 8,
    (Kind.QUANTISE, Kind.LINEAR): 3,
    (Kind.QUANTISE, Kind.LAYOUT): 2,
    (Kind.COMPARE, Kind.LOGIC): 4,
    (Kind.LOGIC, Kind.LOGIC): 2,
    (Kind.CONTAINER, Kind.CONTAINER): 2,
}


@cache
def _taking(dtype: DType, rank: int) -> tuple[Operator, ...]:
    """List the operators that take a value of this type in some opset."""
    everyone = (*all_operators(), *aten_operators())
    known = (operator for operator in everyone if not operator.is_source and rank in operator.ranks)
    return tuple(operator for operator in known if dtype in operator.dtypes_at(LAST_OPSET))


@cache
def operators_for(
    dtype: DType, rank: int, opset: int, realms: frozenset[DTypeFamily]
) -> Mapping[Kind, tuple[Operator, ...]]:
    """The operators that take a value of this type into their focus, by class."""
    found: dict[Kind, list[Operator]] = {}
    for operator in _taking(dtype, rank):
        if operator.belongs(realms) and operator.takes(dtype, rank, opset):
            found.setdefault(operator.kind, []).append(operator)
    return {kind: tuple(found[kind]) for kind in Kind if kind in found}


@cache
def _leanings(
    producer: Kind | None, dtype: DType, rank: int, opset: int, realms: frozenset[DTypeFamily]
) -> tuple[tuple[Kind, float, tuple[Operator, ...]], ...]:
    """Each class with what the weights between classes make of it, and its operators.

    One of which few operators take the type gets less weight: else each of them would be in every program.
    """
    return tuple(
        (kind, _AFFINITY.get((producer, kind), 1.0) * len(operators) / (len(operators) + 8), operators)
        for kind, operators in operators_for(dtype, rank, opset, realms).items()
    )


@cache
def _standard_first() -> tuple[Operator, ...]:
    return tuple(sorted(all_operators(), key=lambda operator: (not operator.is_standard, operator.name)))


def recognising(
    draws: RandomSource, wanted: TensorType, opset: int, realms: frozenset[DTypeFamily], tries: int = 40
) -> Operator | None:
    """Any operator whose result can have this type; None when no try meets one."""
    known = _standard_first()
    for _ in range(tries):
        operator = draws.pick(known)
        if operator.belongs(realms) and operator.recognises(wanted, opset):
            return operator
    return None


class Leaning:
    """One program's own weights: swarm testing, each class made rarer, left alone or made likelier."""

    def __init__(self, draws: RandomSource) -> None:
        self.weights = {kind: weight * draws.pick((0.2, 1, 1, 4)) for kind, weight in _WEIGHT.items()}

    def choose(self, scope: Scope, focus: Operand, realms: frozenset[DTypeFamily]) -> Operator | None:
        """An operator to put after a value, by its type and the class of its producer."""
        found = _leanings(focus.producer, focus.dtype, focus.rank, scope.opset, realms)
        if not found:
            return None
        weights = [self.weights[kind] * factor for kind, factor, _ in found]
        return scope.draws.pick(scope.draws.weighted(found, weights)[2])


_DEPTH = 2
"""How deep bodies stand inside bodies."""
_BODY_TRIES = 6


class Bodies:
    """Grows the graphs inside of nodes by the same operators as programs."""

    def grow(self, inner: Scope, focus: Operand, nodes: int) -> list[Operand]:
        """Put some nodes one after another, from a value on; their results."""
        leaning, made = Leaning(inner.draws), [focus]
        for _ in range(nodes):
            now = made[-1]
            apart = UNTYPED_REALMS if inner.depth < _DEPTH else UNTYPED_REALMS | {DTypeFamily.CONTROL}
            operator = leaning.choose(inner, now, inner.profile.realms - apart)
            mark, count = inner.mark(), len(inner.pool)
            if operator is None or not is_defined(operator, now) or not apply(inner, operator, now):
                inner.restore(mark)
                continue
            made.append(next(value for value in inner.pool[count:] if value.producer is not None))
        return [value for value in made[1:] if value.dtype in ALL]

    def wanted(self, inner: Scope, wanted: TensorType) -> Operand:
        """A result of the wanted type: of an operator that can give it, or a copy."""
        realms = inner.profile.realms - UNTYPED_REALMS - {DTypeFamily.CONTROL, DTypeFamily.CONTAINER}
        for _ in range(_BODY_TRIES):
            mark = inner.mark()
            operator = recognising(inner.draws, wanted, inner.opset, realms)
            found = operator and place_wanted(inner, operator, wanted)
            if found:
                return found
            inner.restore(mark)
        placed = self.use(inner, "Identity", Call((inner.supply(*wanted),)))
        if placed is None:
            raise DoesNotFit("a copy")
        return placed[0]

    def use(self, inner: Scope, name: str, call: Call) -> tuple[Operand, ...] | None:
        """Add a node of the operator of that name; None if a result leaves the budget."""
        return place(inner, find_operator(name), call)


def new_scope(draws: RandomSource, profile: Profile) -> Scope:
    """An empty program that may hold control flow."""
    return Scope(draws, profile, Bodies())
