"""A Relax program under change: growing at a place inside it, and what stands there afterwards.

A type is certain if TVM infers the very same: a name whose shape depends on a symbol, on data or on another
function is left out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from corpus.graphs.format import symbols
from corpus.graphs.program import (
    REF,
    Binding,
    GraphProgram,
    Input,
    graph_of_json,
    graph_to_json,
    parted,
    tag_of,
)
from corpus.values import Tensor as Array
from corpus.values import Value
from generators.language.profile import Budget
from generators.language.values import RandomSource
from generators.relax.choices import Choices
from generators.relax.forms import forms
from generators.relax.leaves import Growth
from generators.relax.making import Frame, Known
from generators.relax.operator import ANY, BOOL, FLOATS, Fields, Json, Tensor, Type, Within
from generators.relax.ops import operators
from generators.relax.programs import belongs_outside, in_blocks
from generators.relax.watched import MOST_FLOAT, Cost, Unsound, Watched, depths_of
from oracles.numerics.rewrites import overwritten
from oracles.worker.relax_reference.rule import NotKnown

_BY_DATA = frozenset(
    f"relax.{name}"
    for name in (
        *("nonzero", "unique", "bucketize", "searchsorted", "topk", "dynamic_strided_slice", "bincount"),
        *("shape_of", "tensor_to_shape", "shape_to_tensor", "size"),
    )
)
"""Operators whose result has sizes, or a dtype, that no operand tells."""
_DTYPES = ("dtype", "out_dtype")


@dataclass(frozen=True)
class Learned:
    """The values of main's names in the run on the case's inputs, the sizes of its symbols, certain types.

    `is_whole` says whether every binding was computed.
    """

    values: Mapping[str, Any]
    sizes: Mapping[str, int]
    types: Mapping[str, Type]
    is_whole: bool


def learn(
    program: GraphProgram, inputs: Mapping[str, Value], given: Mapping[str, Type], most: float
) -> Learned:
    """Run main and tell what is certain; `given` are types that are known already.

    Raises `Unsound` for a value beyond `most`, and for a program that has no result at all.
    """
    document = json.loads(program.to_bytes())
    run, main = Watched(document, most), document["main"]
    known: dict[str, Any] = dict(run.constants)
    sizes: dict[str, int] = {}
    try:
        run.take(main, [inputs[item[0]] for item in main["inputs"]], known, sizes)
        unknown = [name for name in _computed(run, main["bindings"], known, sizes) if name]
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        raise Unsound(str(error)) from error
    types = {**_certain(program, known), **{name: given[name] for name in given if name in known}}
    return Learned(known, sizes, types, not unknown)


def _computed(run: Watched, bindings: Json, known: dict[str, Any], sizes: dict[str, int]) -> Iterator[str]:
    """Compute what can be computed; yields the names of what cannot."""
    unknown: set[str] = set()
    for name, op, args, kwargs in bindings:
        if unknown & set(Binding("", "", tuple(args)).reads):
            unknown.add(name)
            yield name
            continue
        try:
            known[name] = run.value(name, op, args, kwargs, known, sizes)
        except NotKnown:
            unknown.add(name)
            yield name


def _certain(program: GraphProgram, known: Mapping[str, Any]) -> dict[str, Type]:
    """The types of constants, of main's inputs, and of what follows from these."""
    types: dict[str, Type] = {
        name: Tensor(value.dtype.name, value.shape) for name, value in program.constants.items()
    }
    for item in program.main.inputs:
        if (given := _of_input(item)) is not None:
            types[item.name] = given
    for binding in program.main.bindings:
        told = type_of(binding, types, known.get(binding.name))
        if told is not None:
            types[binding.name] = told
    return types


def _of_input(item: Input) -> Tensor | None:
    dims = tuple(dim for dim in item.shape if dim is not None)
    is_plain = item.declared is None and len(dims) == len(item.shape)
    return Tensor(item.dtype, dims) if is_plain else None


def type_of(binding: Binding, types: Mapping[str, Type], value: Any) -> Type | None:
    """The type of a binding of that value, if it is certain; of a tuple the types of its fields."""
    if "type" in binding.kwargs:
        return _static(binding.kwargs["type"])
    if binding.op == "match_cast":
        return _static(binding.args[1])
    if binding.op == "alias" and tag_of(binding.args[0]) == REF:
        return types.get(binding.args[0][REF])
    if binding.op == "getitem" and tag_of(binding.args[0]) == REF:
        told = types.get(binding.args[0][REF])
        return told.fields[int(binding.args[1])] if isinstance(told, Fields) else None
    if binding.op.startswith("relax.call_tir"):
        return _static(binding.kwargs.get("types", [None])[0])
    operands = [types.get(name) for name in binding.reads]
    tensors = [told for told in operands if isinstance(told, Tensor) and told.is_static]
    is_certain = binding.op in _with_entries() and len(tensors) == len(operands)
    if not is_certain or names_symbol(binding.args):
        return None
    return _typed(value, [told.dtype for told in tensors], binding)


def _typed(value: Any, dtypes: Sequence[str], binding: Binding) -> Type | None:
    if isinstance(value, tuple):
        fields = [_typed(each, dtypes, binding) for each in value]
        known = tuple(each for each in fields if each is not None)
        return Fields(known) if len(known) == len(fields) else None
    if not isinstance(value, np.ndarray):
        return None
    dtype = _dtype(value, dtypes, binding)
    return Tensor(dtype, value.shape) if dtype else None


def _dtype(value: Any, dtypes: Sequence[str], binding: Binding) -> str:
    """The dtype that is told, or that of the first operand of this kind."""
    if value.dtype.kind == "b":
        return BOOL
    if binding.op in _BY_NUMBER:
        return str(binding.args[_BY_NUMBER[binding.op]]["prim"][0])
    told = binding.kwargs.get("attributes", ["", {}])[1]
    named = [str(told[key]) for key in _DTYPES if told.get(key) not in (None, "", "void")]
    kinds = [dtype for dtype in named or dtypes if (dtype in FLOATS) == (value.dtype.kind == "f")]
    is_one_of_several = value.dtype.kind == "f" and len({*kinds}) > 1
    return "" if is_one_of_several or (kinds and kinds[0] == BOOL) else (kinds or [""])[0]


_BY_NUMBER = {"relax.one_hot": 1}
"""Operators whose result has the dtype of a number among the operands: its place."""


def names_symbol(item: Json) -> bool:
    """Whether a shape or a number among arguments is spelled by symbols."""
    if isinstance(item, list | tuple):
        return any(map(names_symbol, item))
    if not isinstance(item, dict):
        return False
    if tag_of(item) in ("shape", "prim"):
        (dims,) = item.values()
        return any(isinstance(dim, str) for dim in (dims if "shape" in item else dims[1:]))
    return any(map(names_symbol, item.values()))


@cache
def _with_entries() -> frozenset[str]:
    return frozenset(each.name for each in operators()) - _BY_DATA


def _static(told: Json) -> Tensor | None:
    """The tensor of known sizes that a type of the document spells."""
    if not isinstance(told, dict) or "tensor" not in told:
        return None
    dtype, shape, _ = told["tensor"]
    is_known = dtype is not None and shape is not None and all(isinstance(dim, int) for dim in shape)
    return Tensor(str(dtype), tuple(shape)) if is_known else None


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
        """The type of a name, if it is a tensor that growth may read: nothing writes over it."""
        if name in self._overwritten:
            return None
        told = self.learned.types.get(name)
        own = set(symbols(item.shape for item in self.program.main.inputs))
        fits = isinstance(told, Tensor) and name in self.learned.values and set(symbols([told.shape])) <= own
        return told if fits and isinstance(told, Tensor) else None

    @cached_property
    def _overwritten(self) -> frozenset[str]:
        return frozenset().union(*map(overwritten, self.bindings))

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
