"""What a program may cost: bounds of its arithmetic, its memory, its dims, its depth, and its time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oracles.relation.program import Body, Call, Kind, Node
from oracles.relation.types import NUMPY, TEXT, DType, Shape, TensorType, element

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
