"""What an operator may ask of the program that grows around it, to draw a call of itself or to solve for one.

The generators' own scope has more; an operator sees nothing of it but this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpus.values import Tensor
from oracles.relation.program import Body, Call, Kind, Operand
from oracles.relation.types import ANYTHING, I64, DType, Range, Shape, TensorType

MAX_ELEMENTS = 2048
"""No tensor of a program holds more."""

T = TypeVar("T")


class DoesNotFit(Exception):
    """Something that was to be made leaves the budget: whatever it was for is declined."""


class RandomSource(Protocol):
    """The random source of one program."""

    def below(self, bound: int) -> int:
        """Draw a whole number from 0 on, below the bound."""

    def between(self, low: int, high: int) -> int:
        """Draw an integer between two, both included."""

    def chance(self, probability: float) -> bool:
        """Draw whether something of that probability happens."""

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of the items, each as likely."""

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """Draw one of the items, by their weights."""

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Draw different items, in the order drawn."""

    def words(self, count: int) -> NDArray[np.uint32]:
        """Draw uniform 32-bit words."""


class Leanings(Protocol):
    """What the whole program leans to: its usual element types, and rates."""

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The usual element types."""

    @property
    def reuse(self) -> float:
        """How often a value that is there is taken again."""

    @property
    def shared(self) -> float:
        """How often an inner value is an output too."""

    @property
    def binned(self) -> float:
        """How often a number comes from a bin between powers of two."""


class Scope(Protocol):
    """The program so far: values to reuse, new operands, sizes and axes; the concrete one documents each."""

    opset: int
    pool: list[Operand]

    @property
    def draws(self) -> RandomSource:
        """The random source of the program."""

    @property
    def profile(self) -> Leanings:
        """What the whole program leans to."""

    @property
    def takes_inputs(self) -> bool:
        """Whether new operands may be inputs of the graph: not inside of a node."""

    def allows(self, dtype: DType) -> bool:
        """Whether the program may hold values of that element type."""

    def fresh_name(self) -> str:
        """A name that was not given before."""

    def create(
        self, dtype: DType, shape: Shape, within: Range | None = None, *, as_input: bool = False
    ) -> Operand:
        """A new operand with drawn content: an input of the graph, an initializer or a Constant."""

    def supply(self, dtype: DType, shape: Shape, within: Range | None = None) -> Operand:
        """A value of exactly this type: reused or created."""

    def partner(self, focus: Operand, within: Range | None = None, dtype: DType | None = None) -> Operand:
        """The other operand of an elementwise operator: broadcasts with the focus."""

    def reuse(self, dtype: DType, fits: Callable[[Shape], bool], within: Range = ANYTHING) -> Operand | None:
        """A value that is there already and suits, or None."""

    def fix(self, array: Tensor, dtype: DType = I64) -> Operand:
        """An operand that steers the operator (a shape, axes, a scale): nearly always a constant."""

    def fix_ints(self, values: Iterable[int]) -> Operand:
        """A constant of these int64 values, of rank 1."""

    def fix_scalar(self, value: float, dtype: DType) -> Operand:
        """A fixed operand of rank 0; what the type does not hold is brought to its nearest bound."""

    def constant(self, array: Tensor, dtype: DType) -> Operand:
        """An operand whose content decides the types of the results: never an input."""

    def content_of(self, operand: Operand) -> Tensor | None:
        """The known content of an operand; None for a node's result."""

    def broadcasting_shape(self, shape: Shape) -> Shape:
        """A shape that broadcasts with this one: equal, a suffix, with ones, rarely of higher rank."""

    def dim(self) -> int:
        """A size for a new shape."""

    def shape(self, rank: int) -> Shape:
        """A shape of this rank within the budget."""

    def amount(self, usual: Sequence[int], most: int) -> int:
        """Draw an attribute's number: a usual one, or by the profile's rate one of a bin up to `most`."""

    def axis(self, rank: int) -> int:
        """An axis, counted from either end."""

    def axes(self, rank: int, least: int = 1, most: int | None = None) -> tuple[int, ...]:
        """Different axes, each counted from either end, in any order."""

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

    # Graphs inside of nodes

    def inside(self) -> Scope:
        """Make a scope for the graph inside a node. The inner graph may read the outer values."""

    def keep_names(self) -> None:
        """Keep the names that were given in here out of the outer graph."""

    def close(self, inputs: Iterable[Operand], outputs: Iterable[Operand], trips: int) -> Body:
        """End a body and return it; its names are not used again."""

    def grow(self, focus: Operand, nodes: int) -> list[Operand]:
        """Put some nodes one after another, from a value on; their results."""

    def wanted(self, wanted: TensorType) -> Operand:
        """A new result of the wanted type."""

    def use(self, name: str, call: Call) -> tuple[Operand, ...] | None:
        """Add a node of the operator of that name; None if a result leaves the budget."""
