"""Forward without any weight: HirFuzz's Algorithm 1 without its guide (§5.5), to compare the others with.

Every operator is as likely as any other, and so is every element type. Its operands are values that are
there, where some fit, and new ones otherwise.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

from generators.growth.fragments import new_scope
from generators.growth.grow import Program, begin, finish
from generators.growth.steps import apply
from generators.language.profile import UNLIMITED, Budget, draw_profile
from generators.language.scope import Mark, Scope
from generators.language.values import RandomSource
from generators.strategies import each_seed
from oracles.operators import all_operators
from oracles.relation.operator import Operator
from oracles.relation.program import ONNX_REALMS, DoesNotFit, Operand
from oracles.relation.types import ALL, DType

_TRIES = 8
"""New values that are offered to an operator: some take few shapes."""
_IDLE, _IDLE_IN_BUDGET = 20_000, 300
"""Steps without a node before a program is left as it is; within a budget there may be no room for more."""

Keep = Callable[[Scope, int, Mark], bool]
"""Whether a step is kept, given how many nodes there were before it and the mark from then."""


@cache
def known_operators() -> tuple[Operator, ...]:
    """All that take an operand."""
    return tuple(operator for operator in all_operators() if not operator.is_source)


def uniform(
    seed: int,
    nodes: int,
    budget: Budget = UNLIMITED,
    *,
    operators: Sequence[Operator] = (),
    creates: bool = True,
    keep: Keep = lambda scope, nodes, mark: True,
) -> Program:
    """One program of some operators, all where none are named.

    An operator that finds no value that fits gets a new one, as in the paper's PREINSERT; without `creates`
    it is declined. The first value is what the first operator needs, so that a program of one node is as
    likely to hold any operator.
    """
    draws = RandomSource(f"uniform/{seed}/{nodes}")
    profile = replace(draw_profile(draws, budget), dtypes=ALL, composite=0.0, realms=ONNX_REALMS)
    scope = new_scope(draws, profile)
    if not creates:
        begin(scope)
    chosen = operators or known_operators()
    idle, most = 0, _IDLE_IN_BUDGET if scope.is_limited else _IDLE
    while len(scope.nodes) < nodes and idle < most:
        before, mark = len(scope.nodes), scope.mark()
        if not _step(scope, draws.pick(chosen), creates) or not keep(scope, before, mark):
            scope.restore(mark)
        idle = idle + 1 if len(scope.nodes) == before else 0
    if not scope.pool:
        begin(scope)
    return finish(scope)


def _step(scope: Scope, operator: Operator, creates: bool) -> bool:
    """The operator with one of its element types, on any value that they fit."""
    dtypes = operator.types_in(scope)
    if not dtypes:
        return False
    dtype = scope.draws.pick(dtypes)
    found = [value for value in scope.pool if _fits(scope, operator, dtype, value)]
    if found and apply(scope, operator, scope.draws.pick(found)):
        return True
    return creates and not found and any(_apply_to_new(scope, operator, dtype) for _ in range(_TRIES))


def _fits(scope: Scope, operator: Operator, dtype: DType, value: Operand) -> bool:
    if value.dtype is not dtype or not operator.takes(dtype, value.rank, scope.opset):
        return False
    return operator.domain is None or value.range.is_within(operator.domain)


def _apply_to_new(scope: Scope, operator: Operator, dtype: DType) -> bool:
    """The operator on a new value of a rank that it takes; whatever it declines is taken back."""
    mark, rank = scope.mark(), scope.draws.pick(operator.ranks)
    if not operator.takes(dtype, rank, scope.opset):
        return False
    with suppress(DoesNotFit):
        if apply(scope, operator, scope.create(dtype, scope.shape(rank), operator.domain)):
            return True
    scope.restore(mark)
    return False


STRATEGIES = {"uniform": each_seed(uniform)}
