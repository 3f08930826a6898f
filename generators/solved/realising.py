"""The program of a sketch in the sizes that were found; what leaves its range is left out, with its users."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from generators.growth.bodies import new_scope
from generators.growth.grow import Choose, Program, begin, finish, grow_to, leaning_choice
from generators.growth.placing import place
from generators.language.budget import Budget
from generators.language.profile import BINNED, Profile, draw_profile
from generators.language.random_source import RandomSource
from generators.language.scope import Scope
from generators.solved.dims import Trace, TracedDraws, sizes
from generators.solved.sketch import Created, SketchScope, Used
from oracles.operators import all_operators, find_operator
from oracles.relation.operator import SAME, Operator
from oracles.relation.program import FIRST_OPSET, LAST_OPSET, Attribute, Call, DTypeFamily, Operand
from oracles.relation.scope import DoesNotFit
from oracles.relation.types import ALL, ANYTHING, NARROW, DType, Range, TensorType

_NODES_AT_ONCE = 12
"""Operators in one query; the rest of a larger program grows forward."""
_NARROW = 0.25
"""How often a plan is of an element type that numpy lacks: seven types, of which few operators take each."""
_UNCOMMON = 0.15
"""How often it is of any of numpy's own types, all alike; the usual ones have most programs otherwise."""
_AGAIN = 0.7
_APART = frozenset((DTypeFamily.CONTROL, DTypeFamily.CONTAINER, DTypeFamily.TEXT))
"""Realms whose values have no sizes, or bodies around them."""


def solved_program(seed: int, nodes: int, budget: Budget, z3: Any) -> Program:
    """A sketch with the sizes that were found, and forward growth for the rest."""
    name = f"smt/{seed}/{nodes}"
    draws = RandomSource(name)
    profile = replace(_leaning(draws, draw_profile(draws, budget)), binned=BINNED)
    sketch = _sketched(f"{name}/sketch", min(nodes, _NODES_AT_ONCE), profile, Trace(z3))
    scope = new_scope(draws, replace(profile, extreme=0.0))
    Realising(scope, sketch, sketch.trace.solve()).place_all()
    if not scope.nodes:
        begin(scope)
    grow_to(scope, leaning_choice(draws), nodes)
    return finish(scope)


def _sketched(name: str, nodes: int, profile: Profile, trace: Trace) -> SketchScope:
    draws = TracedDraws(name)
    calm = replace(profile, realms=profile.realms - _APART, extreme=0.0, binned=0.0)
    scope = SketchScope(draws, calm, trace)
    choose = _choice(draws)
    for part in (nodes // 2, nodes):
        begin(scope)
        grow_to(scope, choose, part)
    return scope


def _choice(draws: RandomSource) -> Choose:
    """A choice that draws again, mostly, where an operator keeps the type: it relates no sizes."""
    leaning = leaning_choice(draws)

    def choose(scope: Scope, focus: Operand) -> Operator | None:
        operator = leaning(scope, focus)
        is_plain = operator is not None and operator.inverse is SAME
        return leaning(scope, focus) if is_plain and scope.draws.chance(_AGAIN) else operator

    return choose


def _leaning(draws: RandomSource, profile: Profile) -> Profile:
    """The temper, now and then leaning to a rare element type at an opset that has it."""
    form = draws.random()
    if form < _NARROW:
        dtype = draws.pick(NARROW)
        opset = draws.between(max(profile.opset, _first_opset(dtype)), LAST_OPSET)
        realms = profile.realms | {DTypeFamily.NARROW}
        return replace(
            profile, opset=opset, realms=realms, dtypes=(dtype, dtype, dtype, *profile.dtypes[1:2])
        )
    if form < _NARROW + _UNCOMMON:
        dtype = draws.pick(ALL)
        return replace(profile, dtypes=(dtype, dtype, dtype, *profile.dtypes[1:2]))
    return profile


@cache
def _first_opset(dtype: DType) -> int:
    """The first opset at which an operator of ONNX's own takes the type."""
    own = [each for each in all_operators() if each.is_standard]
    opsets = range(FIRST_OPSET, LAST_OPSET + 1)
    return next(opset for opset in opsets if any(dtype in each.dtypes_at(opset) for each in own))


class Realising:
    """A sketch put into a scope, in other sizes."""

    def __init__(self, scope: Scope, sketch: SketchScope, size: Callable[[int], int]) -> None:
        self.scope, self.sketch, self.size = scope, sketch, size
        self.made: dict[str, Operand] = {}

    def place_all(self) -> None:
        """Put the operators in, in the order of the sketch."""
        for used in self.sketch.uses:
            mark, before = self.scope.mark(), dict(self.made)
            with suppress(DoesNotFit, ValueError):
                if self._placed(used):
                    continue
            self.scope.restore(mark)
            self.made = before

    def _placed(self, used: Used) -> bool:
        """Put one call in, if it gives the types that were sketched."""
        operator = find_operator(used.name)
        operands = tuple(None if each is None else self._operand(each) for each in used.call.operands)
        attributes = {key: self._number(value) for key, value in used.call.attributes.items()}
        call = Call(operands, attributes, used.call.results)
        wanted = [TensorType(dtype, sizes(self.size, dims)) for dtype, dims in used.types]
        domain = operator.domain
        is_defined = domain is None or any(each.range.is_within(domain) for each in call.present)
        if not is_defined or list(operator.infer(call)) != wanted:
            return False
        results = place(self.scope, operator, call)
        self.made.update(zip(used.results, results or (), strict=bool(results)))
        return results is not None

    def _operand(self, sketched: Operand) -> Operand:
        if sketched.name not in self.made:
            self.made[sketched.name] = self._source(sketched.name)
        found = self.made[sketched.name]
        if not found.range.is_within(self.sketch.needs.get(sketched.name, ANYTHING)):
            raise DoesNotFit("range")
        return found

    def _source(self, name: str) -> Operand:
        source = self.sketch.sources.get(name)
        if source is None:
            raise DoesNotFit("left out")
        if isinstance(source, Created):
            bounds = Range(*(self.size(x) if isinstance(x, int) else x for x in source.within))
            dims = sizes(self.size, source.operand.shape)
            return self.scope.create(source.operand.dtype, dims, bounds, as_input=source.is_input)
        if isinstance(source.content, tuple):
            return self.scope.fix_ints(sizes(self.size, source.content))
        return self.scope.fix(source.content, source.operand.dtype)

    def _number(self, value: Attribute) -> Attribute:
        """An attribute with the numbers that were found."""
        if isinstance(value, tuple):
            return tuple(self._number(each) for each in value)  # type: ignore[return-value]
        return self.size(value) if isinstance(value, int) else value
