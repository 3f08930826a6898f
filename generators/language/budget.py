"""What a program may cost: an upper bound of its arithmetic, of its memory, and of its dims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from generators.language.program import Body, Call, Kind
from generators.language.types import NUMPY, TEXT, DType, Shape, TensorType, element

_PRODUCTS = (Kind.LINEAR, Kind.QUANTISE, Kind.RECURRENT, Kind.POOL, Kind.RESAMPLE, Kind.REDUCE, Kind.NORM)
_TEXT_BYTES = 32


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds that a program never exceeds; None where there is none.

    `flops` bounds the operations of one run, `memory` the bytes of all its values together, none freed.
    """

    flops: int | None = None
    memory: int | None = None
    dim: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether anything is limited."""
        return self != UNLIMITED

    def fits(self, shape: Shape) -> bool:
        """Return whether no dim is larger than allowed."""
        return self.dim is None or max(shape, default=0) <= self.dim

    def holds(self, flops: int, memory: int) -> bool:
        """Return whether this number of operations and bytes is allowed."""
        enough = self.flops is None or flops <= self.flops
        return enough and (self.memory is None or memory <= self.memory)


UNLIMITED = Budget()


def bytes_of(dtype: DType, shape: Shape) -> int:
    """Return the bytes of one value; each element of text counts as a short word."""
    kind = element(dtype)
    return math.prod(shape) * (_TEXT_BYTES if kind is TEXT else NUMPY[kind].itemsize)


def flops_of(kind: Kind, call: Call, types: Sequence[TensorType]) -> int:
    """Return an upper bound: every result reads every element of the largest operand, where it may.

    What a body costs is counted as often as it runs.
    """
    made = sum(math.prod(one.shape) for one in types)
    read = [math.prod(operand.shape) for operand in call.present]
    bodies = [value for value in call.attributes.values() if isinstance(value, Body)]
    inside = sum(body.cost * max(body.trips, 1) for body in bodies)
    if kind in _PRODUCTS:
        return max(made, 1) * max(read, default=1) * 2 + sum(read) + inside
    return made + sum(read) + inside
