"""The program while it grows: the values that are there, the ones made for it, and the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from corpus.values import Tensor, Value
from generators.language.profile import Profile, bytes_of, depth_of, depths_of, flops_of, steps_of
from generators.language.values import RandomSource, bearable, draw, fixed, is_in_budget, suits
from oracles.relation.edges import TYPE
from oracles.relation.operator import Operator
from oracles.relation.program import (
    MAX_RANK,
    Body,
    Call,
    DoesNotFit,
    Kind,
    Node,
    Operand,
    dtype_family_of,
    node_of,
)
from oracles.relation.types import (
    ANYTHING,
    I64,
    NUMPY,
    OPTIONALS,
    SEQUENCES,
    TENSORS,
    DType,
    Range,
    Shape,
    TensorType,
    element,
    extent,
    is_float,
)

_JOINED = 0.6
"""How often a reused operand is a result where there is one, so that operators meet one another."""


class Mark(NamedTuple):
    """A point in the growth of a scope."""

    counts: tuple[int, ...]
    names: int


class Grower(Protocol):
    """The part of growth that operators with bodies need, on the scope inside; growth stands above them."""

    def grow(self, inner: Scope, focus: Operand, nodes: int) -> list[Operand]:
        """Put some nodes one after another, from a value on; their results."""

    def wanted(self, inner: Scope, wanted: TensorType) -> Operand:
        """A new result of the wanted type."""

    def use(self, inner: Scope, name: str, call: Call) -> tuple[Operand, ...] | None:
        """Add a node of the operator of that name; None if a result leaves the budget."""


class Scope:
    """The one mutable thing in growth: every sampler draws, reuses and creates through it.

    Whatever a declined call had created is taken back by `restore`. Results in `shown` are outputs, used
    or not; other results in `enclosed` are outputs only if nothing uses them. Names begin with `prefix`.
    """

    prefix = "v"

    def __init__(self, draws: RandomSource, profile: Profile, grower: Grower) -> None:
        self.draws = draws
        self.grower = grower
        self.profile = profile
        self.is_limited = profile.budget.is_limited
        self.opset = profile.opset
        self.pool: list[Operand] = []
        self.nodes: list[Node] = []
        self.inputs: list[tuple[Operand, Value]] = []
        self.initializers: list[tuple[str, Tensor]] = []
        self.constants: list[tuple[str, Tensor]] = []
        self.costs: list[tuple[int, int, int]] = []
        self.outer_depths: dict[str, int] = {}
        self.shown: set[str] = set()
        self.enclosed: set[str] = set()
        self._names = 0
        self.edges = TYPE
        """Of the operator in hand: values to draw for its operands."""
        self.outer: Scope | None = None
        self.depth = 0

    def mark(self) -> Mark:
        """The present point, for `restore`."""
        return Mark(tuple(map(len, self._parts)), self._names)

    def restore(self, mark: Mark) -> None:
        """Take back all that came since a mark."""
        for part, count in zip(self._parts, mark.counts, strict=True):
            del part[count:]
        self._names = mark.names

    @property
    def _parts(self) -> tuple[list, ...]:  # type: ignore[type-arg]
        return self.pool, self.nodes, self.inputs, self.initializers, self.constants, self.costs

    def fresh_name(self) -> str:
        """A name that was not given before."""
        self._names += 1
        return f"{self.prefix}{self._names}"

    def skip_names(self, count: int) -> None:
        """Leave names to others."""
        self._names += count

    # Bodies

    def inside(self) -> Scope:
        """Make a scope for the graph inside a node. The inner graph may read the outer values."""
        inner = Scope(self.draws, replace(self.profile, inputs=0.0, unfixed=0.0), self.grower)
        inner.outer, inner.depth, inner.prefix = self, self.depth + 1, self.prefix
        inner.pool = list(self.pool)
        inner.costs = list(self.costs)
        inner.outer_depths = self.depths() if self.profile.budget.depth else {}
        inner.skip_names(self._names)
        return inner

    def keep_names(self) -> None:
        """Keep the names that were given in here out of the outer graph."""
        if self.outer is not None:
            self.outer._names = max(self.outer._names, self._names)

    def close(self, inputs: Iterable[Operand], outputs: Iterable[Operand], trips: int) -> Body:
        """End a body and return it; its names are not used again."""
        self.keep_names()
        parts = tuple(self.nodes), tuple(self.initializers), tuple(self.constants)
        before = self.outer.costs if self.outer is not None else []
        cost = sum(flops for flops, _, _ in self.costs) - sum(flops for flops, _, _ in before)
        return Body(tuple(inputs), tuple(outputs), *parts, trips, cost)

    def grow(self, focus: Operand, nodes: int) -> list[Operand]:
        """Put some nodes one after another, from a value on; their results."""
        return self.grower.grow(self, focus, nodes)

    def wanted(self, wanted: TensorType) -> Operand:
        """A new result of the wanted type."""
        return self.grower.wanted(self, wanted)

    def use(self, name: str, call: Call) -> tuple[Operand, ...] | None:
        """Add a node of the operator of that name; None if a result leaves the budget."""
        return self.grower.use(self, name, call)

    @property
    def takes_inputs(self) -> bool:
        """Whether new operands may be inputs of the graph: not inside of a node."""
        return not self.depth

    # Costs

    def afford(self, kind: Kind, call: Call, types: Sequence[TensorType]) -> None:
        """Count what a node costs; raises `DoesNotFit` where the budget does not allow it."""
        if not self.is_limited:
            return
        node = node_of("", call, ())
        if self.profile.budget.depth and not self.profile.budget.reaches(depth_of(node, self.depths())):
            raise DoesNotFit("the depth")
        self.charge(flops_of(kind, call, types), types, steps_of((node,)))

    def charge(self, flops: int, values: Iterable[tuple[DType, Shape]], steps: int = 0) -> None:
        """Count operations and new values; raises `DoesNotFit` where the budget does not allow them."""
        if not self.is_limited:
            return
        budget = self.profile.budget
        made = list(values)
        cost = flops, sum(bytes_of(*value) for value in made), steps
        spent = [sum(column) for column in zip(cost, *self.costs, strict=True)]
        if not budget.holds(*spent) or not all(budget.fits(shape) for _, shape in made):
            raise DoesNotFit("the budget")
        self.costs.append(cost)

    def depths(self) -> dict[str, int]:
        """The number of operators in the longest chain that ends in each value."""
        return depths_of(self.nodes, self.outer_depths)

    # Operands

    def create(
        self,
        dtype: DType,
        shape: Shape,
        within: Range | None = None,
        *,
        as_input: bool = False,
        near: Sequence[float] = (),
    ) -> Operand:
        """A new operand with drawn content: an input of the graph, an initializer or a Constant.

        Its values are `near` some, else edges of the operator in hand as often as the program leans to those.
        Raises `DoesNotFit` when it would be too large.
        """
        if math.prod(shape) > self.profile.elements:
            raise DoesNotFit(str(shape))
        self.charge(0, [(dtype, shape)])
        draws = self.draws
        if dtype in SEQUENCES or dtype in OPTIONALS:
            return self._create_container(dtype, shape, within)
        if not near and draws.chance(self.profile.extreme):
            edges = self.edges if draws.chance(0.5) else TYPE
            near = bearable(edges.at(dtype, within), dtype, self.profile.is_wide and self.edges.is_wide)
        content = draw(draws, dtype, shape, within, near)
        name = self.fresh_name()
        if as_input or draws.chance(self.profile.inputs):
            operand = Operand(name, dtype, shape, content.range)
            self.inputs.append((operand, content.array))
        else:
            operand = self._store(name, dtype, shape, content.range, content.array)
        self.pool.append(operand)
        return operand

    def at_edge(self, operator: Operator, focus: Operand) -> Operand:
        """The focus, or now and then a new value of its type in its place, of the operator's own edges."""
        self.edges = operator.edges
        if operator.edges is TYPE or not self.draws.chance(self.profile.extreme / 2):
            return focus
        own = operator.edges.values(focus.dtype) if focus.dtype in TENSORS else ()
        if not own or not self.takes_inputs:
            return focus
        is_wide = self.profile.is_wide and operator.edges.is_wide
        near = bearable((*own, *TYPE.at(focus.dtype, operator.domain)), focus.dtype, is_wide)
        return self.create(focus.dtype, focus.shape, near=near)

    def results(self, operator: Operator, call: Call) -> tuple[Sequence[TensorType], Sequence[Range]]:
        """The types and ranges of a call's results.

        Raises `DoesNotFit` where they leave the budget, or where the operator may not bear a far operand.
        """
        is_wide = self.profile.is_wide and operator.is_wide
        floats = (value for value in call.present if is_float(value.dtype))
        if not is_wide and not all(value.range.is_within(extent(value.dtype)) for value in floats):
            raise DoesNotFit("a far value")
        types, ranges, most = operator.infer(call), operator.bound(call), self.profile.elements
        if not all(is_in_budget(*of, range, is_wide, most) for of, range in zip(types, ranges, strict=True)):
            raise DoesNotFit(operator.name)
        return types, ranges

    def _create_container(self, dtype: DType, shape: Shape, within: Range | None) -> Operand:
        """An input of the graph: no initializer holds one."""
        if not self.takes_inputs:
            raise DoesNotFit(dtype.name)
        content = draw(self.draws, element(dtype), shape, within)
        operand = Operand(self.fresh_name(), dtype, shape, content.range)
        self.inputs.append((operand, list(content.array) if dtype in SEQUENCES else content.array))
        self.pool.append(operand)
        return operand

    def allows(self, dtype: DType) -> bool:
        """Whether the program may hold values of that element type."""
        realm = dtype_family_of(dtype)
        return realm is None or realm in self.profile.realms

    def fix(self, array: Tensor, dtype: DType = I64) -> Operand:
        """An operand that steers the operator (a shape, axes, a scale): nearly always a constant."""
        array = np.asarray(array)
        self.charge(0, [(dtype, array.shape)])
        name = self.fresh_name()
        bounds = fixed(array).range
        if self.draws.chance(self.profile.unfixed):
            operand = Operand(name, dtype, array.shape, bounds, None, array)
            self.inputs.append((operand, array))
            return operand
        return self._store(name, dtype, array.shape, bounds, array)

    def constant(self, array: Tensor, dtype: DType) -> Operand:
        """An operand whose content decides the types of the results: never an input."""
        self.charge(0, [(dtype, array.shape)])
        return self._store(self.fresh_name(), dtype, array.shape, fixed(array).range, array)

    def content_of(self, operand: Operand) -> Tensor | None:
        """The known content of an operand; None for a node's result."""
        inputs = ((one.name, array) for one, array in self.inputs)
        found = dict((*inputs, *self.initializers, *self.constants)).get(operand.name)
        return found if isinstance(found, np.ndarray) else None

    def fix_ints(self, values: Iterable[int]) -> Operand:
        """A constant of these int64 values, of rank 1."""
        return self.fix(np.array(list(values), dtype=np.int64))

    def fix_scalar(self, value: float, dtype: DType) -> Operand:
        """A fixed operand of rank 0; what the type does not hold is brought to its nearest bound."""
        if not is_float(dtype):
            low, high, _ = extent(dtype)
            value = int(min(max(value, low), high))
        return self.fix(np.array(value, dtype=NUMPY[dtype]), dtype)

    def _store(self, name: str, dtype: DType, shape: Shape, bounds: Range, array: Tensor) -> Operand:
        place = self.constants if self.draws.chance(0.1) else self.initializers
        place.append((name, array))
        return Operand(name, dtype, shape, bounds, None, array, is_constant=True)

    def fitting(self, dtype: DType, fits: Callable[[Shape], bool], within: Range) -> list[Operand]:
        """The values that are there and suit."""
        found = (value for value in self.pool if value.dtype is dtype and fits(value.shape))
        return [value for value in found if value.range.is_within(within)]

    def reuse(self, dtype: DType, fits: Callable[[Shape], bool], within: Range = ANYTHING) -> Operand | None:
        """A value that is there already and suits, or None."""
        found = self.fitting(dtype, fits, within)
        if found and self.draws.chance(_JOINED):
            found = [value for value in found if value.producer is not None] or found
        return self.draws.pick(found) if found else None

    def supply(self, dtype: DType, shape: Shape, within: Range | None = None) -> Operand:
        """A value of exactly this type: reused or created."""
        if self.draws.chance(self.profile.reuse):
            found = self.reuse(dtype, shape.__eq__, within or ANYTHING)
            if found is not None:
                return found
        return self.create(dtype, shape, within)

    def partner(self, focus: Operand, within: Range | None = None, dtype: DType | None = None) -> Operand:
        """The other operand of an elementwise operator: broadcasts with the focus."""
        dtype = focus.dtype if dtype is None else dtype
        if self.draws.chance(self.profile.reuse):
            most = self.profile.elements
            found = self.reuse(dtype, lambda shape: suits(focus.shape, shape, most), within or ANYTHING)
            if found is not None:
                return found
        return self.create(dtype, self.broadcasting_shape(focus.shape), within)

    def broadcasting_shape(self, shape: Shape) -> Shape:
        """A shape that broadcasts with this one: equal, a suffix, with ones, rarely of higher rank."""
        draws, form = self.draws, self.draws.random()
        if form < 0.35:
            return shape
        if form < 0.55:
            return ()
        if form < 0.67:
            return shape[draws.between(0, len(shape)) :]
        if form < 0.75:
            return (1,)
        result = tuple(dim if draws.chance(0.5) else 1 for dim in shape)
        if form > 0.95 and len(shape) < MAX_RANK:
            result = (draws.pick(self.profile.dims), *result)
        return result

    # Shapes and attributes

    def dim(self) -> int:
        """A size for a new shape."""
        return self.draws.pick(self.profile.dims)

    def shape(self, rank: int) -> Shape:
        """A shape of this rank within the budget."""
        dims: list[int] = []
        room = self.profile.elements
        for _ in range(rank):
            dim = self.dim()
            dim = dim if dim <= room else 1
            room //= max(dim, 1)
            dims.append(dim)
        return tuple(dims)

    def amount(self, usual: Sequence[int], most: int) -> int:
        """Draw an attribute's number: a usual one, or by the temper's rate one of a bin up to `most`."""
        return self.draws.amount(usual, most, self.profile.binned)

    def axis(self, rank: int) -> int:
        """An axis, counted from either end."""
        axis = self.draws.below(rank)
        return axis - rank if self.draws.chance(0.4) else axis

    def axes(self, rank: int, least: int = 1, most: int | None = None) -> tuple[int, ...]:
        """Different axes, each counted from either end, in any order."""
        chosen = self.draws.sample(range(rank), self.draws.between(least, rank if most is None else most))
        return tuple(axis - rank if self.draws.chance(0.3) else axis for axis in chosen)

    # Growth

    def emit(
        self,
        name: str,
        kind: Kind,
        call: Call,
        types: Iterable[TensorType],
        ranges: Iterable[Range],
        content: Tensor | None,
    ) -> tuple[Operand, ...]:
        """Add a node of an operator of that name and class, and its results, which hold a content if any."""
        results = tuple(
            Operand(self.fresh_name(), dtype, shape, bounds, kind, content)
            for (dtype, shape), bounds in zip(types, ranges, strict=True)
        )
        self.nodes.append(node_of(name, call, tuple(value.name for value in results)))
        self.pool.extend(results)
        return results
