"""Forward sampling on concrete types: put one operator after another until the program is large enough.

Every step picks a value that is there (the focus), an operator for it, and the rest of that operator's
operands; so a program is connected, and every result's type and range are known when it is made.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import onnx

from corpus.case import Case, Remark
from corpus.values import Value
from generators.growth.rewrites import place_rewritable
from generators.growth.steps import Leaning, apply, is_defined, new_scope, operators_for, place
from generators.language.emit import write_model
from generators.language.profile import UNLIMITED, Budget, Counts, count, draw_profile
from generators.language.scope import Scope
from generators.language.values import RandomSource
from generators.pools import Bred
from oracles.operators import find_operator
from oracles.relation.operator import Operator
from oracles.relation.program import Call, DoesNotFit, DTypeFamily, Operand
from oracles.relation.types import ALL, F32, Range, TensorType, dtype_of

_RANKS, _RANK_WEIGHTS = (0, 1, 2, 3, 4, 5), (0.4, 1.0, 2.5, 2.5, 4.0, 0.5)
# How far back the next operator reaches: long chains, with branches. 0 is as far as the first value.
_REACH = (1, 1, 1, 1, 2, 4, 4, 0, 0, 0)
_PATIENCE = 200
"""Steps without a node, before a copy is put."""


@dataclass(frozen=True, slots=True)
class Program:
    """A model, the values of its inputs, and the type and the range of every value in it."""

    model: onnx.ModelProto
    inputs: Mapping[str, Value]
    types: Mapping[str, TensorType]
    ranges: Mapping[str, Range]
    fires: tuple[str, ...] = ()
    """The passes whose patterns it holds."""
    bred: Bred | None = None
    """What it was bred on, where a campaign keeps a pool."""
    format: ClassVar[str] = "onnx"

    def as_case(self, seed: int) -> Case:
        """The case of the program: its bytes, its inputs, and the seed that it came from."""
        text = self.model.SerializeToString(deterministic=True)
        notes = tuple(map(Remark.PATTERN.note, self.fires))
        return Case(self.format, text, dict(self.inputs), origin=f"seed:{seed}", notes=notes)

    def counts(self) -> Counts:
        """Count its operators, and operators by dtype, shape and neighbour."""
        return count(self.model, self.types)


Choose = Callable[[Scope, Operand], Operator | None]
"""Which operator to put after a value; None when there is none for it."""


def leaning_choice(draws: RandomSource) -> Choose:
    """The choice by one program's own weights between classes of operators."""
    leaning = Leaning(draws)

    def choose(scope: Scope, focus: Operand) -> Operator | None:
        first = leaning.choose(scope, focus, scope.profile.realms)
        if first is None or all(node.op != first.name for node in scope.nodes):
            return first
        return leaning.choose(
            scope, focus, scope.profile.realms
        )  # drawn once more, so that programs hold more operators

    return choose


def grow(
    seed: int, nodes: int, without: frozenset[DTypeFamily] = frozenset(), budget: Budget = UNLIMITED
) -> Program:
    """The program of this seed with this many nodes, Constants not counted; `without` some realms."""
    draws = RandomSource(f"{seed}/{nodes}")
    profile = draw_profile(draws, budget)
    scope = new_scope(draws, replace(profile, realms=profile.realms - without))
    choose = leaning_choice(draws)
    begin(scope)
    grow_to(scope, choose, nodes)
    return finish(scope)


def begin(scope: Scope) -> None:
    """The first value: an input of the graph."""
    draws = scope.draws
    dtype, rank = draws.pick(scope.profile.dtypes), draws.weighted(_RANKS, _RANK_WEIGHTS)
    if dtype not in ALL and not operators_for(dtype, rank, scope.opset, scope.profile.realms):
        dtype = F32
    try:
        scope.create(dtype, scope.shape(rank), as_input=True)
    except DoesNotFit:
        scope.create(F32, (), as_input=True)


def grow_to(scope: Scope, choose: Choose, nodes: int) -> None:
    """Put one operator after another until there are this many nodes, or the budget allows no more."""
    idle = 0
    while len(scope.nodes) < nodes and idle < 2 * _PATIENCE:
        before = len(scope.nodes)
        step(scope, choose, nodes - before)
        idle = 0 if len(scope.nodes) > before else idle + 1
        if idle > _PATIENCE:
            step(scope, lambda scope, focus: find_operator("Identity"), nodes - before)


def step(scope: Scope, choose: Choose, room: int) -> None:
    """Add a node, and perhaps a guard before it; or nothing when the operator declines."""
    # The latest result, one of the latest values, or any; now and then a constant
    draws = scope.draws
    constants = draws.chance(0.05)
    found = scope.pool if constants else [value for value in scope.pool if not value.is_constant]
    focus = draws.pick(found[-draws.pick(_REACH) :])
    mark = scope.mark()
    if draws.chance(scope.profile.composite):
        if place_rewritable(scope, focus, room):
            return
        scope.restore(mark)
    operator = choose(scope, focus)
    if operator is None:
        return
    guarded = guard(scope, operator, focus, room)
    if guarded is None or not apply(scope, operator, guarded):
        scope.restore(mark)


def guard(scope: Scope, operator: Operator, focus: Operand, room: int) -> Operand | None:
    """The focus where it lies in the operator's domain, else clipped into it, else None."""
    domain = operator.domain
    if domain is None or is_defined(operator, focus):
        return focus
    if room < 2 or scope.draws.chance(0.5):
        return None
    low = domain.low if math.isfinite(domain.low) else domain.away or -4.0
    high = domain.high if math.isfinite(domain.high) else max(low, 0.0) + 4.0
    try:
        bounds = tuple(scope.fix_scalar(value, focus.dtype) for value in (low, high))
    except DoesNotFit:
        return None
    placed = place(scope, find_operator("Clip"), Call((focus, *bounds)))
    return placed[0] if placed and placed[0].range.is_within(domain) else None


def finish(scope: Scope) -> Program:
    """Build the program from the nodes and values in the scope; an input that nothing reads is left out."""
    outputs = _outputs(scope)
    read = {name for node in scope.nodes for name in node.uses}
    scope.inputs = [each for each in scope.inputs if each[0].name in read or not read]
    types = {value.name: value.type for value in scope.pool}
    for operand, _ in scope.inputs:
        types[operand.name] = operand.type
    for name, array in (*scope.initializers, *scope.constants):
        types[name] = TensorType(dtype_of(array), array.shape)
    inputs = {operand.name: array for operand, array in scope.inputs}
    ranges = {value.name: value.range for value in scope.pool}
    return Program(write_model(scope, outputs, _named_sizes(scope)), inputs, types, ranges)


def _named_sizes(scope: Scope) -> dict[int, str]:
    """The sizes that inputs have a name for; what is inferred from a name never contradicts its size."""
    rate = scope.profile.named
    if not rate:
        return {}
    sizes = dict.fromkeys(dim for operand, _ in scope.inputs for dim in operand.shape if dim > 1)
    chosen = [size for size in sizes if scope.draws.chance(rate)]
    return {size: f"dim_{index}" for index, size in enumerate(chosen)}


def _outputs(scope: Scope) -> list[Operand]:
    """Every result that nothing uses, less some later results of an operator, and some that are used."""
    used = {name for node in scope.nodes for name in node.uses}
    later = {name for node in scope.nodes for name in node.results[1:]}
    draws, shared = scope.draws, scope.profile.shared
    outputs = []
    for value in scope.pool:
        if value.producer is None:
            continue
        if value.name in scope.enclosed and value.name in used and value.name not in scope.shown:
            continue
        rate = shared if value.name in used else 0.6 if value.name in later else 1.0
        if value.name in scope.shown or draws.chance(rate):
            outputs.append(value)
    return outputs
