"""Which operator comes next: weights between classes of operators, as in the programs that people write.

A compiler rewrites neighbours, so neighbours that it knows should meet more often than by chance: an
activation after a linear operator, a chain of moves, a cast there and back. The weights know classes only;
within a class every operator that takes the type is as likely as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from generators.language.values import RandomSource
from oracles.operators import all_operators, aten_operators
from oracles.relation.operator import Operator
from oracles.relation.program import LAST_OPSET, DTypeFamily, Kind
from oracles.relation.types import DType, TensorType

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
    """Each class with what the weights between classes make of it, and its operators."""
    return tuple(
        (kind, _AFFINITY.get((producer, kind), 1.0) * _breadth(len(operators)), operators)
        for kind, operators in operators_for(dtype, rank, opset, realms).items()
    )


def _breadth(operators: int) -> float:
    """Give a class less weight if few of its operators take the type.

    Else each of them would be in every program.
    """
    return operators / (operators + 8)


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

    def choose(
        self,
        draws: RandomSource,
        producer: Kind | None,
        dtype: DType,
        rank: int,
        opset: int,
        realms: frozenset[DTypeFamily],
    ) -> Operator | None:
        """An operator to put after a value of this type that came from a producer of this class."""
        found = _leanings(producer, dtype, rank, opset, realms)
        if not found:
            return None
        own = self.weights
        return draws.pick(draws.weighted(found, [own[kind] * factor for kind, factor, _ in found])[2])
