"""The program of a plan: its operators on values of the sizes that were found, inputs grown back or made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import Any

from generators.growth.affinity import recognising
from generators.growth.bodies import new_scope
from generators.growth.grow import Program, begin, finish, grow_to, guard, leaning_choice
from generators.growth.placing import place, place_wanted
from generators.language.budget import Budget
from generators.language.profile import BINNED, Profile, draw_profile
from generators.language.program import FIRST_OPSET, LAST_OPSET, DTypeFamily, Operand
from generators.language.random_source import RandomSource
from generators.language.scope import DoesNotFit, Scope
from generators.language.types import ALL, F32, NARROW, TENSORS, DType, Range, TensorType, extent, is_float
from generators.ops import all_operators, find_operator
from generators.solved import keeping, moving, windows
from generators.solved.plan import Plan, Planned, Term, Use, Value

_VALUES = Range(-2, 2)
_NODES_AT_ONCE = 12
"""Operators in one query; the rest of a larger program grows forward."""
_BACKWARD = 0.3
"""How often an input of the plan is another operator's result, by its own solver."""
_PATIENCE = 60
_NARROW = 0.25
"""How often a plan is of an element type that numpy lacks: seven types, of which few operators take each."""
_UNCOMMON = 0.15
"""How often it is of any of numpy's own types, all alike; the usual ones have most programs otherwise."""
RELATIONS = {**keeping.RELATIONS, **moving.RELATIONS, **windows.RELATIONS}


def solved_program(seed: int, nodes: int, budget: Budget, z3: Any) -> Program:
    """Return the planned part with the sizes that were found, and forward growth for the rest."""
    draws = RandomSource(f"smt/{seed}/{nodes}")
    profile = replace(_leaning(draws, draw_profile(draws, budget)), binned=BINNED)
    dtypes = tuple(dtype for dtype in profile.dtypes if dtype in TENSORS) or (F32,)
    scope = new_scope(draws, replace(profile, extreme=0.0))
    for count in (nodes, nodes // 2, 1):  # constraints that contradict are drawn anew, fewer of them
        plan = _planned(Plan(draws, z3, profile.opset, dtypes, profile.realms), count)
        size = plan.solve()
        if size is not None:
            Realising(scope, plan, size).place_all()
            break
    if not scope.nodes:
        begin(scope)
    grow_to(scope, leaning_choice(draws), nodes)
    return finish(scope)


def _leaning(draws: RandomSource, profile: Profile) -> Profile:
    """Return the temper, now and then leaning to a rare element type at an opset that has it."""
    form = draws.random()
    if form < _NARROW:
        dtype = draws.pick(NARROW)
        opset = draws.between(max(profile.opset, _first_opset(dtype)), LAST_OPSET)
        realms = profile.realms | {DTypeFamily.NARROW}
        return replace(profile, opset=opset, realms=realms, dtypes=(dtype, dtype, *profile.dtypes[1:3]))
    if form < _NARROW + _UNCOMMON:
        dtype = draws.pick(ALL)
        return replace(profile, dtypes=(dtype, dtype, *profile.dtypes[1:3]))
    return profile


@cache
def _first_opset(dtype: DType) -> int:
    """Return the first opset at which an operator of ONNX's own takes the type."""
    own = [each for each in all_operators() if each.is_standard]
    opsets = range(FIRST_OPSET, LAST_OPSET + 1)
    return next(opset for opset in opsets if any(dtype in each.dtypes_at(opset) for each in own))


def _planned(plan: Plan, nodes: int) -> Plan:
    """Draw relations until there are as many operators as fit into one query."""
    relations, weights = tuple(RELATIONS), tuple(accumulate(RELATIONS.values()))
    plan.input(plan.draws.pick(plan.dtypes), plan.draws.between(1, 4))
    for _ in range(_PATIENCE):
        if len(plan.nodes) >= min(nodes, _NODES_AT_ONCE):
            break
        drawn = plan.draws.random() * weights[-1]
        relation = next(each for each, most in zip(relations, weights, strict=True) if drawn < most)
        before = len(plan.values), len(plan.free), len(plan.constraints)
        try:
            relation(plan)
        except DoesNotFit:  # an input or a constraint that was to be part of it must not stay
            del plan.values[before[0] :], plan.free[before[1] :], plan.constraints[before[2] :]
        if plan.draws.chance(0.1):
            plan.input(plan.draws.pick(plan.dtypes), plan.draws.between(0, 4))
    return plan


class Realising:
    """A plan put into a scope; what leaves its range is left out with its users."""

    def __init__(self, scope: Scope, plan: Plan, size: Callable[[Term], int]) -> None:
        self.scope, self.plan, self.size = scope, plan, size
        self.made: dict[tuple[int, int], Operand] = {}

    def place_all(self) -> None:
        """Put the operators in, in the order of the plan."""
        for at, planned in enumerate(self.plan.nodes):
            for name in planned.names:
                if self._place(at, planned, name):
                    break

    def _place(self, at: int, planned: Planned, name: str) -> bool:
        mark, before = self.scope.mark(), dict(self.made)
        with suppress(DoesNotFit, ValueError):
            placed = self._applied(planned, name)
            if placed is not None:
                self.made.update(((at, index), result) for index, result in enumerate(placed))
                return True
        self.scope.restore(mark)
        self.made = before
        return False

    def _applied(self, planned: Planned, name: str) -> tuple[Operand, ...] | None:
        """Return the results of the operator, if they have the types that were planned."""
        operator = find_operator(name)

        def get(place: int, within: Range | None = None) -> Operand:
            found = self._operand(planned.operands[place], within)
            if place or operator.domain is None:
                return found
            guarded = guard(self.scope, operator, found, 2)
            if guarded is None:
                raise DoesNotFit("domain")
            return guarded

        call = planned.make(Use(self.scope, operator, get, self.size))
        if call is None:
            return None
        wanted = [TensorType(dtype, tuple(map(self.size, dims))) for dtype, dims in planned.results]
        is_as_planned = list(operator.infer(call)[: len(wanted)]) == wanted
        return place(self.scope, operator, call) if is_as_planned else None

    def _operand(self, value: Value, within: Range | None) -> Operand:
        key = value.node, value.result
        if key not in self.made:
            if value.node >= 0:
                raise DoesNotFit("left out")
            self.made[key] = self._input(value, within)
        found = self.made[key]
        if within is not None and not found.range.is_within(within):
            raise DoesNotFit("range")
        return found

    def _input(self, value: Value, within: Range | None) -> Operand:
        """Return a result of an operator of that type, or an input; values of both are small."""
        scope, wanted = self.scope, TensorType(value.dtype, tuple(map(self.size, value.dims)))
        if within is None and scope.draws.chance(_BACKWARD):
            mark = scope.mark()
            operator = recognising(scope.draws, wanted, scope.opset, scope.profile.realms)
            made = place_wanted(scope, operator, wanted) if operator else None
            if made is not None:
                return made
            scope.restore(mark)
        is_input = scope.draws.chance(0.5) or not self.made
        return scope.create(*wanted, within or _usual(value.dtype), as_input=is_input)


def _usual(dtype: DType) -> Range | None:
    """Small values, of an element type that has numbers."""
    if dtype not in ALL:
        return None
    return _VALUES if is_float(dtype) or extent(dtype).low < 0 else Range(0, 4)
