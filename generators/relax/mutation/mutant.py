"""A Relax program under change: growing at a place inside it, and what stands there afterwards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corpus.graphs.format import symbols
from corpus.graphs.loops import parted
from corpus.graphs.program import REF, Binding, GraphProgram, graph_of_json, graph_to_json
from corpus.values import Tensor as Array
from generators.language.budget import Budget
from generators.language.random_source import RandomSource
from generators.relax.choices import Choices
from generators.relax.costs import Cost, depths_of
from generators.relax.finishing import belongs_outside, in_blocks
from generators.relax.forms import forms
from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.mutation.known import Learned, learn
from generators.relax.operator import ANY, Within
from generators.relax.types import FLOATS, Json, Tensor, Type
from generators.relax.watched import MOST_FLOAT, Unsound

_FUEL = 3
BLOCK = "block"


@dataclass(frozen=True)
class Mutant:
    """A program, values of its inputs, and the types that are known of its names."""

    program: GraphProgram
    inputs: Mapping[str, Array]
    given: Mapping[str, Type]
    draws: RandomSource
    budget: Budget
    most: float = MOST_FLOAT

    @cached_property
    def learned(self) -> Learned:
        """What a run tells of it. Raises `Unsound`."""
        return learn(self.program, self.inputs, self.given, self.most)

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """Those of main."""
        return self.program.main.bindings

    @cached_property
    def depths(self) -> dict[str, int]:
        """By name of a binding of main, the operators of the longest chain that ends in it."""
        return depths_of(self.bindings, {})

    def tensor(self, name: str) -> Tensor | None:
        """The type of a name, if it is a tensor that growth may read."""
        told = self.learned.types.get(name)
        own = set(symbols(item.shape for item in self.program.main.inputs))
        fits = isinstance(told, Tensor) and name in self.learned.values and set(symbols([told.shape])) <= own
        return told if fits and isinstance(told, Tensor) else None

    def is_sound(self, before: Mutant) -> bool:
        """Whether it runs as the program before did, and is no deeper than the budget allows.

        No value is too large, and none cannot be computed.
        """
        limit = self.budget.depth
        if limit is not None and max(self.depths.values(), default=0) > limit:
            return False
        try:
            return self.learned.is_whole or not before.learned.is_whole
        except Unsound:
            return False

    # Growing

    def growth(self, at: int, choices: Choices) -> Growth:
        """Growth of bindings that will stand before the place."""
        program = self.program
        growth = Growth(self.draws, choices, _FUEL, self.budget, forms())
        growth.skip_names(
            max((int(n) for name in program.names for n in re.findall(r"\d{1,9}$", name)), default=0)
        )
        growth.constants = dict(program.constants)
        growth.functions = {name: graph_to_json(graph) for name, graph in program.functions.items()}
        growth.opaque = program.told_outside
        growth.floats = self._floats or growth.floats
        growth.cost = self.cost
        growth.depths = self.depths
        growth.main = self._frame(at)
        return growth

    @property
    def cost(self) -> Cost:
        """What the program costs to run, where that is bounded."""
        cost, values = Cost(), self.learned.values
        for each in self.bindings if self.budget.is_limited else ():
            read = [values[name] for name in each.reads if name in values]
            cost = cost.plus(each.op, read, values.get(each.name))
        return cost

    @property
    def _floats(self) -> tuple[str, ...]:
        """The float dtypes of the inputs, the most frequent first."""
        found = Counter(item.dtype for item in self.program.main.inputs if item.dtype in FLOATS)
        return tuple(name for name, _ in found.most_common())

    def _frame(self, at: int) -> Frame:
        main = self.program.main
        calls = {
            name for graph in self.program.functions.values() for each in graph.walk() for name in each.calls
        }
        frame = Frame(takes_inputs=self.program.facts.get("main", "main") not in calls)
        frame.inputs = list(graph_to_json(main)["inputs"])
        frame.symbols = list(symbols(item.shape for item in main.inputs))
        frame.sizes = {name: self.learned.sizes[name] for name in frame.symbols if name in self.learned.sizes}
        names = [*(item.name for item in main.inputs), *(each.name for each in self.bindings[:at])]
        for name in names:
            told = self.tensor(name)
            if told is not None:
                frame.known.append(Known(name, told, self.learned.values[name]))
        return frame

    def grown(
        self, at: int, choices: Choices, target: Tensor, within: Within, near: str = ""
    ) -> Grown | None:
        """A value of the type, made before the place; `near` is a name that it should rather read."""
        growth = self.growth(at, choices)
        if near:  # leaves are drawn from what is known
            growth.main.known += [each for each in growth.main.known if each.name == near] * 3
        with growth.attempt(growth.main) as is_lost:
            found = growth.grow(growth.main, target, within, _FUEL)
            is_lost.clear()
        return None if is_lost else Grown(growth, found.name)

    # What stands there afterwards

    def with_grown(self, at: int, grown: Grown, rest: Sequence[Binding]) -> Mutant:
        """The program with what was grown before the place, and these bindings from there on."""
        growth = grown.growth
        made = tuple(
            Binding(name, op, tuple(args), dict(kwargs)) for name, op, args, kwargs in growth.main.bindings
        )
        bindings = in_block_of(self.bindings[:at], made, rest)
        blocks = in_blocks(self.draws, 0.5)
        new = growth.functions.keys() - self.program.functions.keys()
        functions = {
            name: graph_of_json(blocks(each) if name in new else each)
            for name, each in growth.functions.items()
        }
        main = graph_of_json(
            {**graph_to_json(self.program.main), "inputs": growth.main.inputs, "bindings": []}
        )
        opaque, loops = parted(growth.opaque)
        program = replace(
            self.program,
            main=replace(main, bindings=bindings),
            constants=dict(growth.constants),
            functions=functions,
            opaque=opaque,
            loops=loops,
        )
        given = {**self.given, **growth.types}
        return replace(self, program=program, inputs={**self.inputs, **growth.feeds}, given=given)

    def with_bindings(self, bindings: Sequence[Binding]) -> Mutant:
        """The program with other bindings in main."""
        main = replace(self.program.main, bindings=tuple(bindings))
        return replace(self, program=replace(self.program, main=main))


@dataclass(frozen=True)
class Grown:
    """What was grown at a place, and the name of the value that it was grown for."""

    growth: Growth
    name: str


def bounds_of(value: Array) -> Within:
    """Bounds that another value in the place of this one must keep: operators after it may need them."""
    if value.dtype.kind == "b" or not value.size:
        return ANY
    low, high = float(value.min()), float(value.max())
    if value.dtype.kind in "iu" or max(abs(low), abs(high)) <= 1:
        return Within(low, high)
    is_nonzero = bool(np.abs(value).min() >= 0.01)
    return Within(low=min(low, 0.05) if low >= 0 else None, is_nonzero=is_nonzero)


def in_block_of(
    before: Sequence[Binding], made: Sequence[Binding], after: Sequence[Binding]
) -> tuple[Binding, ...]:
    """All of these in order; what was made joins the dataflow block that it stands in, or cuts it in two."""
    left = before[-1].kwargs.get(BLOCK) if before else None
    right = after[0].kwargs.get(BLOCK) if after else None
    if right is None or not made:
        return (*before, *made, *after)
    if not any(belongs_outside(each.op, list(each.args)) for each in made):
        return (*before, *(_in(each, right) for each in made), *after)
    if left != right:
        return (*before, *made, *after)
    fresh = 1 + max(each.kwargs.get(BLOCK) or 0 for each in (*before, *after))
    moved = (_in(each, fresh) if each.kwargs.get(BLOCK) == right else each for each in after)
    return (*before, *made, *moved)


def _in(binding: Binding, block: int) -> Binding:
    return replace(binding, kwargs={**binding.kwargs, BLOCK: block})


def reading(binding: Binding, old: str, new: str) -> Binding:
    """The binding with another operand in the place of one."""

    def change(item: Json) -> Json:
        return {REF: new} if item == {REF: old} else item

    return binding.mapped(change)


def astype(name: str, source: str, dtype: str, like: Binding) -> Binding:
    """A cast that stands where the other binding does."""
    told: dict[str, Json] = {"attributes": ["AstypeAttrs", {"dtype": dtype}]}
    if like.kwargs.get(BLOCK) is not None:
        told[BLOCK] = like.kwargs[BLOCK]
    return Binding(name, "relax.astype", ({REF: source},), told)
