"""Optimisation patterns as the generator takes them: each node one of its operators, with its attributes.

A pattern that holds an operator, an attribute or a body that the generator has no rule for has no recipe.

What the pattern reads is a value that is there already, where one has the type; else a new one. Nodes that
bring a value to the type (§3.2.2) are left out: with them fewer passes fired. What it computes goes on into
the program: its outputs always, the values within it now and then, by which a rewrite is given a user that it
must not forget.

A context is kept as the seeds that it was made of: the first grew a program around patterns, each further one
put more into it. What made a pass fire together with another for the first time stays in the campaign's pool.
"""

import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, helper, numpy_helper

from corpus.onnx.check import checker_complaint
from corpus.pattern import Pattern
from corpus.values import Tensor
from generators.growth.grow import finish
from generators.growth.steps import new_scope
from generators.language.profile import draw_profile, qualified_name
from generators.language.scope import Scope
from generators.language.values import RandomSource
from generators.pools import PROGRAM, Bred, Pool
from oracles.operators import known_operator
from oracles.relation.operator import Operator
from oracles.relation.program import (
    FIRST_OPSET,
    LAST_OPSET,
    MAX_ELEMENTS,
    MAX_RANK,
    Attribute,
    Call,
    DoesNotFit,
    DTypeFamily,
    Kind,
    Operand,
)
from oracles.relation.types import (
    ANYTHING,
    NUMPY,
    DType,
    Range,
    Shape,
    TensorType,
    dtype_of,
    extent,
    is_float,
)

Dims = tuple[int | str, ...]
"""An axis is of a size, or of any size; the same one wherever its name stands."""

_CODES = frozenset(map(int, DType))
_DIVIDING = frozenset(("Div", "Mod"))
_FREE = (Kind.ARITHMETIC, Kind.COMPARE, Kind.LOGIC, Kind.MATH)
"""Of these classes no operand steers."""
_OF_DATA = (*_FREE, Kind.LINEAR, Kind.PART)
"""Of these a float after the first operand is data like that one."""
_SETTING = Range(0.1, 0.9)
"""Of others it is a ratio, a scale, a variance or a bound."""


@dataclass(frozen=True, slots=True)
class Hole:
    """An input of a pattern: what may be put there.

    `within` is where its values must lie for what reads it to be defined; one that `steers` is all zeros,
    which as an index is in range wherever anything is.
    """

    name: str
    dtype: DType
    dims: Dims
    within: Range | None = None
    steers: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """One operator of a pattern; empty names stand for operands that are left out."""

    operator: Operator
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A pattern that can be put into a program of one of these opsets."""

    pattern: Pattern
    opsets: tuple[int, int]
    slots: tuple[Hole, ...]
    constants: Mapping[str, Tensor]
    uses: tuple[Use, ...]
    outputs: frozenset[str]
    least: Mapping[str, int]

    @property
    def fires(self) -> str:
        """The pass that the pattern is for."""
        return self.pattern.fires

    @property
    def nodes(self) -> int:
        """Count the nodes that the recipe takes."""
        return len(self.uses)


def recipe_of(pattern: Pattern) -> Recipe | None:
    """Return None for a pattern that the generator cannot put into a program."""
    graph = pattern.graph
    try:
        uses = [_use(node) for node in graph.node if node.op_type != "Constant"]
        constants = {tensor.name: _array(tensor) for tensor in graph.initializer}
        constants |= {node.output[0]: _constant(node) for node in graph.node if node.op_type == "Constant"}
        slots = [_slot(info, uses) for info in graph.input]
    except NoRule:
        return None
    first = max(FIRST_OPSET, pattern.opsets[0], *(use.operator.since for use in uses))
    last = min(LAST_OPSET, pattern.opsets[1], *(use.operator.until for use in uses))
    if first > last or all(slot.steers for slot in slots):
        return None
    outputs = frozenset(info.name for info in graph.output)
    least = dict(pattern.least)
    return Recipe(pattern, (first, last), tuple(slots), constants, tuple(uses), outputs, least)


class NoRule(Exception):
    """The generator does not know such a thing."""


def _use(node: onnx.NodeProto) -> Use:
    operator = known_operator(qualified_name(node))
    if operator is None or operator.realm is DTypeFamily.ATEN or not node.input or not node.input[0]:
        raise NoRule(node.op_type)
    attributes = {each.name: _attribute(each) for each in node.attribute}
    return Use(operator, tuple(node.input), tuple(node.output), attributes)


def _attribute(proto: AttributeProto) -> Attribute:
    match helper.get_attribute_value(proto):
        case int() | float() as number:
            return number
        case bytes() as text:
            return text.decode()
        case onnx.TensorProto() as tensor:
            return _array(tensor)
        case [*items] if not any(isinstance(each, Message) for each in items):
            return tuple(each.decode() if isinstance(each, bytes) else each for each in items)
    raise NoRule(proto.name)


def _array(tensor: onnx.TensorProto) -> Tensor:
    array: Tensor = numpy_helper.to_array(tensor)
    if array.dtype.kind == "O":
        array = array.astype(str)
    return array


def _constant(node: onnx.NodeProto) -> Tensor:
    found = [each.t for each in node.attribute if each.name == "value"]
    if not found:
        raise NoRule("Constant")
    return _array(found[0])


def _slot(info: onnx.ValueInfoProto, uses: Sequence[Use]) -> Hole:
    tensor = info.type.tensor_type
    if tensor.elem_type not in _CODES or not tensor.HasField("shape"):
        raise NoRule(info.name)
    dtype = DType(tensor.elem_type)
    dims = tuple(dim.dim_param or int(dim.dim_value) for dim in tensor.shape.dim)
    places = [(use, at) for use in uses for at, name in enumerate(use.operands) if name == info.name]
    steers = not is_float(dtype) and any(at and use.operator.kind not in _FREE for use, at in places)
    return Hole(info.name, dtype, dims, _domain(dtype, places), steers)


def _domain(dtype: DType, places: Iterable[tuple[Use, int]]) -> Range | None:
    """The domain of the first operator that has one; a divisor stays away from zero."""
    for use, at in places:
        if not at and use.operator.domain is not None:
            return use.operator.domain
        if at == 1 and use.operator.name in _DIVIDING:
            return Range(1, 9)
        if at and is_float(dtype) and use.operator.kind not in _OF_DATA:
            return _SETTING
    return None


_REUSED = 0.85
"""How often a value that is there is taken where one suits."""
_OPEN = 0.04
"""How often the values within a pattern may be used by the rest of the program."""
_SHOWN = 0.02
"""How often some of them are outputs of the program."""
_TRIES = 3
_LARGEST = 1e3
"""Of the magnitude of a float whose interval says more than its type holds: a pattern's own values are not
as independent as intervals take them for (a variance is not negative, a normalised value is small)."""
_ASKED_WRONGLY = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What a rule for types raises of a call that no sampler of ours makes: then the pattern does not fit."""


class Hidden(list[Operand]):
    """Values that the rest of the program does not get to see."""


def place_recipe(scope: Scope, recipe: Recipe, room: int, hidden: Hidden) -> bool:
    """Put the pattern into the program by at most `room` nodes; if it fails, do nothing and return False."""
    for left in reversed(range(_TRIES)):
        mark = scope.mark()
        try:
            made = _Placing(scope, recipe, room, eager=left > 0).place()
        except DoesNotFit:
            scope.restore(mark)
            continue
        _open_up(scope, recipe, made, hidden)
        return True
    return False


def _open_up(scope: Scope, recipe: Recipe, made: dict[str, Operand], hidden: Hidden) -> None:
    """Decide whether later nodes may read a value from within the pattern."""
    draws = scope.draws
    inner = [value for name, value in made.items() if name not in recipe.outputs]
    shown = (value.name for name, value in made.items() if name in recipe.outputs and draws.chance(0.5))
    scope.shown.update(shown)  # in the order in which they were made: the outputs are a set
    if draws.chance(_OPEN):
        return
    if inner and draws.chance(_SHOWN):
        scope.shown.add(draws.pick(inner).name)
    names = {value.name for value in inner}
    scope.enclosed |= names
    scope.pool[:] = [value for value in scope.pool if value.name not in names]
    hidden.extend(inner)


class _Placing:
    """One try: the sizes that named dims have got, and the values that the pattern's names stand for.

    An `eager` one takes values that are there, another one makes all it needs.
    """

    def __init__(self, scope: Scope, recipe: Recipe, room: int, eager: bool) -> None:
        self.scope, self.recipe, self.eager = scope, recipe, eager
        self.sizes: dict[str, int] = {}
        self.values: dict[str, Operand] = {}
        if room < recipe.nodes:
            raise DoesNotFit(recipe.fires)

    def place(self) -> dict[str, Operand]:
        """Place the pattern's nodes; map its names to what they compute."""
        slots = self.scope.draws.sample(self.recipe.slots, len(self.recipe.slots))
        for slot in sorted(slots, key=lambda slot: slot.steers):
            self.values[slot.name] = self._supply(slot)
        for name in self.recipe.constants:
            array = self.recipe.constants[name]
            value = self.scope.constant(array, dtype_of(array))
            self.scope.charge(0, [(value.dtype, value.shape)])
            self.values[name] = value
        made: dict[str, Operand] = {}
        for use in self.recipe.uses:
            results = _emit(self.scope, use, [self.values.get(name) for name in use.operands])
            made.update((name, one) for name, one in zip(use.results, results, strict=False) if name)
            self.values.update(made)
        return made

    # What it reads

    def _supply(self, slot: Hole) -> Operand:
        draws = self.scope.draws
        if slot.steers:
            array = np.zeros(self._shape(slot.dims), NUMPY[slot.dtype])
            self.scope.charge(0, [(slot.dtype, array.shape)])
            operand = Operand(self.scope.fresh_name(), slot.dtype, array.shape, Range(0, 0), None, array)
            self.scope.inputs.append((operand, array))
            return operand
        if self.eager and draws.chance(_REUSED):
            found = [value for value in self.scope.pool if not value.is_constant and self._suits(value, slot)]
            if found:
                return self._bound(draws.pick(found[-6:]), slot)
        return self.scope.create(slot.dtype, self._shape(slot.dims), slot.within, as_input=True)

    def _suits(self, value: Operand, slot: Hole) -> bool:
        """Whether a value that is there has the slot's type, for some sizes of its named dims."""
        if value.dtype is not slot.dtype or value.rank != len(slot.dims):
            return False
        if not value.range.is_within(slot.within or ANYTHING):
            return False
        sizes = dict(self.sizes)
        return all(
            (sizes.setdefault(dim, size) == size and size >= self.recipe.least.get(dim, 2))
            if isinstance(dim, str)
            else dim == size
            for dim, size in zip(slot.dims, value.shape, strict=True)
        )

    def _bound(self, value: Operand, slot: Hole) -> Operand:
        named = zip(slot.dims, value.shape, strict=True)
        self.sizes.update((dim, size) for dim, size in named if isinstance(dim, str))
        return value

    def _shape(self, dims: Dims) -> Shape:
        """The dims with sizes for those that have none yet."""
        for dim in dims:
            if isinstance(dim, str) and dim not in self.sizes:
                least = self.recipe.least.get(dim, 2)
                usual = [size for size in self.scope.profile.dims if size >= least] if self.eager else []
                self.sizes[dim] = self.scope.draws.pick(usual or range(least, least + 4))
        return tuple(self.sizes[dim] if isinstance(dim, str) else dim for dim in dims)


# What it computes


def _emit(scope: Scope, use: Use, operands: list[Operand | None]) -> tuple[Operand, ...]:
    """The results of one operator of the pattern; raises `DoesNotFit` where it is not for these operands."""
    operator, first = use.operator, operands[0]
    if first is None or not operator.takes(first.dtype, first.rank, scope.opset):
        raise DoesNotFit(operator.name)
    call = Call(tuple(operands), use.attributes, len(use.results))
    try:
        types = operator.infer(call)
        ranges = operator.bound(_within_domain(operator, call))
    except _ASKED_WRONGLY as error:
        raise DoesNotFit(operator.name) from error
    for _, shape in types:
        is_large = math.prod(max(dim, 1) for dim in shape) > MAX_ELEMENTS or len(shape) > MAX_RANK + 1
        if is_large or min(shape, default=1) < 1:
            raise DoesNotFit(operator.name)
    scope.afford(operator.kind, call, types)
    tamed = [_tamed(of, bounds) for of, bounds in zip(types, ranges, strict=True)]
    return operator.emit(scope, call, types, tamed)


def _within_domain(operator: Operator, call: Call) -> Call:
    """The call with its focus taken for being where the operator is defined."""
    domain, first = operator.domain, call.operand(0)
    if domain is None or first.range.is_within(domain):
        return call
    low, high = max(first.range.low, domain.low), min(first.range.high, domain.high)
    kept = Range(low, high, domain.away) if low <= high else domain
    return call._replace(operands=(first._replace(range=kept), *call.operands[1:]))


def _tamed(of: TensorType, bounds: Range) -> Range:
    limit = extent(of.dtype)
    if not is_float(of.dtype) or (limit.low <= bounds.low and bounds.high <= limit.high):
        return bounds
    low = bounds.low if -_LARGEST <= bounds.low <= _LARGEST else -_LARGEST
    high = bounds.high if low <= bounds.high <= _LARGEST else _LARGEST
    return Range(low, high, min(bounds.away, high))


def is_sound(recipe: Recipe) -> bool:
    """Whether the pattern can be put into a program, and the checker agrees with every type that we give."""
    draws = RandomSource(recipe.pattern.name)
    scope = new_scope(draws, replace(draw_profile(draws), opset=recipe.opsets[1], unfixed=0.0, named=0.0))
    if not place_recipe(scope, recipe, recipe.nodes, Hidden()):
        return False
    scope.shown.update(value.name for value in scope.pool)
    return checker_complaint(finish(scope).model) is None


def leaning_dtypes(draws: RandomSource, recipe: Recipe, usual: tuple[DType, ...]) -> tuple[DType, ...]:
    """The element types that a program should hold for the pattern to meet values of its own."""
    own = [slot.dtype for slot in recipe.slots if not slot.steers]
    return (draws.pick(own), draws.pick(own), *usual[2:]) if own else usual


DEEPEST = 4
"""Seeds that a program is made of, at most: all are made again for each program that goes on from it."""
_FRESH = 0.35
"""How often a program begins anew, though there are contexts."""


def bred_of(seed: int, pool: Pool, kind: str) -> Bred:
    """What the program of a seed is bred on, among the pool's entries of a kind.

    Each context draws a lot for the seed and the best one wins, so that one context more or less in the pool
    changes only the seeds that it wins.
    """
    entries = pool.of_kind(kind).entries
    if not entries or RandomSource(f"context/{seed}").chance(_FRESH):
        return Bred(made_of=json.dumps([seed]), kind=kind)
    root = max(entries, key=lambda each: (zlib.crc32(f"{seed}/{each.key}".encode()), each.key))
    seeds = [*json.loads(root.program)[: DEEPEST - 1], seed]
    return Bred(root.key, PROGRAM, json.dumps(seeds), kind)


def seeds_of(bred: Bred) -> tuple[int, ...]:
    """The seeds that a program is made of, the first one first."""
    return tuple(json.loads(bred.made_of))


def further_nodes(nodes: int) -> int:
    """How many nodes each further seed adds to a program of so many."""
    return max(4, nodes // 2)
