"""What a whole program leans to: sizes, element types, how often values are shared, what realms let in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import onnx

from generators.language.values import RandomSource
from oracles.relation.program import (
    FIRST_OPSET,
    LAST_OPSET,
    MAX_ELEMENTS,
    Body,
    Call,
    DTypeFamily,
    Kind,
    Node,
    dtype_family_of,
)
from oracles.relation.types import ALL, NARROW, NUMPY, TEXT, DType, Shape, TensorType, element


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of what the models have held so far; Constants are values, not operators.

    `op_types` holds names, `op_dtype` names with the element types of operands and results, `op_shape` names
    with the operands' shapes, `op_edge` pairs of a producer and its consumer.
    """

    models: int = 0
    op_types: frozenset[str] = field(default_factory=frozenset)
    op_dtype: frozenset[tuple[object, ...]] = field(default_factory=frozenset)
    op_shape: frozenset[tuple[object, ...]] = field(default_factory=frozenset)
    op_edge: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def __or__(self, other: Counts) -> Counts:
        sets = (getattr(self, name) | getattr(other, name) for name in _SETS)
        return Counts(self.models + other.models, *sets)

    def facts(self) -> dict[str, int]:
        """Count the distinct members of each set."""
        return {"models": self.models, **{name: len(getattr(self, name)) for name in _SETS}}

    @classmethod
    def of(cls, uses: Iterable[Use], makers: Mapping[str, str]) -> Counts:
        """The counts of one model, by its uses of operators, and the operator that makes each name."""
        found = list(uses)
        edges = {(makers[name], use.op) for use in found for name in use.reads if name in makers}
        return cls(
            1,
            frozenset(use.op for use in found),
            frozenset((use.op, use.dtypes, use.results) for use in found),
            frozenset((use.op, use.shapes) for use in found),
            frozenset(edges),
        )


_SETS = ("op_types", "op_dtype", "op_shape", "op_edge")


class Use(NamedTuple):
    """A use of an operator: element types of its operands and of its results, shapes, and what it reads."""

    op: str
    dtypes: tuple[object, ...]
    results: object
    shapes: tuple[object, ...]
    reads: Sequence[str]


def qualified_name(node: onnx.NodeProto) -> str:
    """The operator with its operator set, where that is not ONNX's own."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def count(model: onnx.ModelProto, types: Mapping[str, TensorType]) -> Counts:
    """The counts of one model, given the type of every value in it."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    makers = {name: qualified_name(node) for node in nodes for name in node.output}
    return Counts.of((_use(node, types) for node in nodes), makers)


def _use(node: onnx.NodeProto, types: Mapping[str, TensorType]) -> Use:
    operands = [types[name] for name in node.input if name in types]
    results = tuple(types[name].dtype for name in node.output if name in types)
    dtypes, shapes = tuple(each.dtype for each in operands), tuple(each.shape for each in operands)
    return Use(qualified_name(node), dtypes, results, shapes, node.input)


_PRODUCTS = (Kind.LINEAR, Kind.QUANTISE, Kind.RECURRENT, Kind.POOL, Kind.RESAMPLE, Kind.REDUCE, Kind.NORM)
_TEXT_BYTES = 32
_STEP, _FLOP, _BYTE = 2e-5, 1e-9, 1e-9
"""Seconds that one operator, one operation and one byte of a result take, un-optimised on one core."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds that a program never exceeds; None where there is none.

    `flops` bounds the operations of one run, `memory` the bytes of all its values together, none freed,
    `depth` the operators of a chain in which each reads the one before, and `seconds` the time of one run,
    which is estimated from the other counts: it is the same on every machine.
    """

    flops: int | None = None
    memory: int | None = None
    dim: int | None = None
    depth: int | None = None
    seconds: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether anything is limited."""
        return self != UNLIMITED

    def fits(self, shape: Shape) -> bool:
        """Whether no dim is larger than allowed."""
        return self.dim is None or max(shape, default=0) <= self.dim

    def holds(self, flops: int, memory: int, steps: int) -> bool:
        """Whether this number of operations, bytes, and operators that are run is allowed."""
        enough = self.flops is None or flops <= self.flops
        enough &= self.memory is None or memory <= self.memory
        return enough and (self.seconds is None or seconds_of(flops, memory, steps) <= self.seconds)

    def reaches(self, depth: int) -> bool:
        """Whether a chain of this number of operators is allowed."""
        return self.depth is None or depth <= self.depth


UNLIMITED = Budget()


def seconds_of(flops: int, memory: int, steps: int) -> float:
    """Estimate how long a run takes, so that runs mostly take less."""
    return steps * _STEP + flops * _FLOP + memory * _BYTE


def bytes_of(dtype: DType, shape: Shape) -> int:
    """The bytes of one value; each element of text counts as a short word."""
    kind = element(dtype)
    return math.prod(shape) * (_TEXT_BYTES if kind is TEXT else NUMPY[kind].itemsize)


def flops_of(kind: Kind, call: Call, types: Sequence[TensorType]) -> int:
    """An upper bound: every result reads every element of the largest operand, where it may.

    What a body costs is counted as often as it runs.
    """
    made = sum(math.prod(one.shape) for one in types)
    read = [math.prod(operand.shape) for operand in call.present]
    bodies = [value for value in call.attributes.values() if isinstance(value, Body)]
    inside = sum(body.cost * max(body.trips, 1) for body in bodies)
    if kind in _PRODUCTS:
        return max(made, 1) * max(read, default=1) * 2 + sum(read) + inside
    return made + sum(read) + inside


def steps_of(nodes: Iterable[Node]) -> int:
    """Count the nodes that run; those of a body as often as it does."""
    return sum(1 + sum(max(body.trips, 1) * steps_of(body.nodes) for body in node.bodies) for node in nodes)


def depth_of(node: Node, depths: Mapping[str, int]) -> int:
    """The length of the longest chain that ends in a node, given those of the values that it reads.

    A chain goes through the bodies of a node.
    """
    inside = (max(depths_of(body.nodes, depths).values(), default=0) for body in node.bodies)
    return 1 + max((*(depths.get(name, 0) for name in node.uses), *inside), default=0)


def depths_of(nodes: Iterable[Node], depths: Mapping[str, int]) -> dict[str, int]:
    """The length of the longest chain that ends in each value, those of outer values included."""
    found = dict(depths)
    for node in nodes:
        found.update(dict.fromkeys(node.results, depth_of(node, found)))
    return found


@dataclass(frozen=True, slots=True)
class Profile:
    """The leanings of one program, drawn once so that rare things meet in one program.

    The rates hold for every operand of every operator alike. `dims` are the sizes that its shapes are made
    of. `extreme` is the rate of hazard values, `shared` of inner values that are outputs too, `unfixed` of
    graph inputs where an operand is usually fixed, `composite` of what optimisers rewrite, `inputs`
    of graph inputs among new operands, `reuse` of existing values. `realms` are the rare groups of types that
    are allowed. `named` is the rate of inputs' dims that have a name instead of a size; `binned`
    is the rate of attributes' numbers that come from bins between powers of two. No value has more than so
    many `elements`. The program keeps to the `budget`.
    """

    opset: int
    dims: tuple[int, ...]
    dtypes: tuple[DType, ...]
    extreme: float
    shared: float
    unfixed: float
    composite: float
    inputs: float
    reuse: float
    realms: frozenset[DTypeFamily]
    named: float = 0.0
    binned: float = 0.0
    elements: int = MAX_ELEMENTS
    budget: Budget = UNLIMITED

    @property
    def is_wide(self) -> bool:
        """Whether its floats may be huge and tiny, where operators bear that."""
        return self.extreme >= _WIDE_FROM


_WIDE_FROM = 0.5
BINS = ((1, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64), (64, 130))
"""Between two powers of two each: a size of a drawn one, so that ones and large sizes occur (NNSmith)."""


BINNED = 0.5
"""How many numbers of attributes come from bins, in the strategies that draw by bins at all."""


def with_binned_dims(draws: RandomSource, profile: Profile) -> Profile:
    """The temper with sizes of five bins in place of its own, and attributes by bins."""
    drawn = (draws.between(*bin) for bin in draws.sample(BINS, 5))
    dims = tuple(dim for dim in drawn if profile.budget.fits((dim,)))
    return replace(profile, dims=dims or (1,), binned=BINNED)


def draw_profile(draws: RandomSource, budget: Budget = UNLIMITED) -> Profile:
    """Odd sizes, extreme values, shared outputs and unfixed operands each come in a part of the programs."""
    dims = draws.sample((1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17), 4)
    if draws.chance(0.3):
        dims.append(1)
    if draws.chance(0.12):
        dims.append(draws.pick(_LARGE_DIMS))
    if draws.chance(0.08):
        dims.append(0)
    first = draws.weighted(ALL, _DTYPE_WEIGHTS)
    realms = frozenset(realm for rates in _REALM_RATES for realm in _draw_realms(draws, rates))
    return Profile(
        opset=LAST_OPSET if draws.chance(0.2) else draws.between(FIRST_OPSET, LAST_OPSET),
        dims=tuple(dim for dim in dims if budget.fits((dim,))) or (1,),
        dtypes=(first, first, first, _other_dtype(draws, realms)),
        extreme=draws.pick((0.0, 0.0, 0.1, 0.5)),
        shared=draws.pick((0.0, 0.0, 0.1, 0.4)),
        unfixed=draws.pick((0.0, 0.0, 0.0, 0.1)),
        composite=draws.pick((0.0, 0.1, 0.3, 0.6)),
        inputs=draws.pick((0.05, 0.3, 0.7)),
        reuse=draws.pick((0.3, 0.6, 0.85)),
        realms=realms,
        named=draws.pick((0.0,) * 9 + (0.6,)),
        budget=budget,
    )


_Rates = tuple[tuple[float, tuple[DTypeFamily, ...]], ...]

_REALM_RATES: tuple[_Rates, ...] = (
    ((0.15, (DTypeFamily.CONTRIB,)), (0.02, (DTypeFamily.ML,)), (0.02, (DTypeFamily.ML, DTypeFamily.TEXT))),
    ((0.1, (DTypeFamily.CONTROL,)),),
    ((0.03, (DTypeFamily.TEXT,)),),
    ((0.015, (DTypeFamily.CONTAINER,)),),
    ((0.015, (DTypeFamily.NARROW,)),),
)
"""How often which realms come; those of one row exclude one another."""


def _draw_realms(draws: RandomSource, rates: _Rates) -> tuple[DTypeFamily, ...]:
    form = draws.random()
    for rate, realms in rates:
        if form < rate:
            return realms
        form -= rate
    return ()


def _other_dtype(draws: RandomSource, realms: frozenset[DTypeFamily]) -> DType:
    """Now and then one that a realm lets in."""
    rare = [dtype for dtype in (TEXT, *NARROW) if dtype_family_of(dtype) in realms]
    return draws.pick(rare) if rare and draws.chance(0.6) else draws.weighted(ALL, _DTYPE_WEIGHTS)


_LARGE_DIMS = (11, 13, 15, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129, 255, 256, 257, 263)
"""Powers of two with their neighbours, and primes."""

_DTYPE_WEIGHTS = tuple(
    {DType.F32: 12.0, DType.F64: 3.0, DType.F16: 1.0, DType.I32: 2.0, DType.I64: 2.0, DType.U8: 1.0}.get(
        dtype, 0.6
    )
    for dtype in ALL
)
