"""How the graphs inside of control flow grow: what operators ask of growth, through their scope."""

from __future__ import annotations

from generators.growth.affinity import Leaning, recognising
from generators.growth.placing import apply, place, place_wanted
from generators.language.profile import Profile
from generators.language.random_source import RandomSource
from generators.language.scope import Scope
from oracles.operators import find_operator
from oracles.relation.operator import Operator
from oracles.relation.program import Call, DTypeFamily, Operand
from oracles.relation.scope import DoesNotFit
from oracles.relation.types import ALL, TensorType

_DEPTH = 2
"""How deep bodies stand inside bodies."""
_TRIES = 6


class Bodies:
    """Grows the graphs inside of nodes by the same operators as programs."""

    def grow(self, inner: Scope, focus: Operand, nodes: int) -> list[Operand]:
        """Put some nodes one after another, from a value on; their results."""
        leaning, made = Leaning(inner.draws), [focus]
        for _ in range(nodes):
            now = made[-1]
            realms = (
                inner.profile.realms if inner.depth < _DEPTH else inner.profile.realms - {DTypeFamily.CONTROL}
            )
            operator = leaning.choose(
                inner.draws, now.producer, now.dtype, now.rank, inner.opset, realms - {DTypeFamily.CONTRIB}
            )
            mark, count = inner.mark(), len(inner.pool)
            if operator is None or not _is_defined(operator, now) or not apply(inner, operator, now):
                inner.restore(mark)
                continue
            made.append(next(value for value in inner.pool[count:] if value.producer is not None))
        return [value for value in made[1:] if value.dtype in ALL]

    def wanted(self, inner: Scope, wanted: TensorType) -> Operand:
        """A result of the wanted type: of an operator that can give it, or a copy."""
        realms = inner.profile.realms - {DTypeFamily.CONTRIB, DTypeFamily.CONTROL, DTypeFamily.CONTAINER}
        for _ in range(_TRIES):
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


def _is_defined(operator: Operator, focus: Operand) -> bool:
    return operator.domain is None or focus.range.is_within(operator.domain)
