"""Forward without any weight: HirFuzz without its guide (§5.5), to compare the others with.

Every operator is as likely as any other, every element type, and every value as its focus.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from generators.budget import UNLIMITED, Budget
from generators.draws import Draws
from generators.grow import Program, apply, begin, finish
from generators.ops import all_operators
from generators.scope import Scope, draw_temper
from generators.spec import Operator, Realm
from generators.types import ALL

_IDLE = 20_000
"""Steps without a node before a program is left as it is: the budget allows no more."""


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """A program a seed."""
    for seed in seeds:
        draws = Draws(f"uniform/{seed}/{nodes}")
        temper = replace(draw_temper(draws, budget), dtypes=ALL, composite=0.0, realms=frozenset(Realm))
        scope = Scope(draws, temper)
        begin(scope)
        idle = 0
        while len(scope.nodes) < nodes and idle < _IDLE:
            before = len(scope.nodes)
            _step(scope)
            idle = idle + 1 if len(scope.nodes) == before else 0
        yield finish(scope)


@cache
def _operators() -> tuple[Operator, ...]:
    return tuple(operator for operator in all_operators() if not operator.is_source)


def _step(scope: Scope) -> None:
    """An operator and an element type, on any value that they fit; or nothing."""
    draws, opset = scope.draws, scope.opset
    operator = draws.pick(_operators())
    dtypes = scope.dtypes_of(operator)
    if not dtypes:
        return
    dtype = draws.pick(dtypes)
    found = [
        value for value in scope.pool if value.dtype is dtype and operator.takes(dtype, value.rank, opset)
    ]
    if operator.domain is not None:
        found = [value for value in found if value.range.is_within(operator.domain)]
    mark = scope.mark()
    if found and not apply(scope, operator, draws.pick(found)):
        scope.restore(mark)
