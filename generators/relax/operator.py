"""An operator of Relax to the generator: recogniser, solver, sampler (the RFC's "Handling Operators")."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from corpus.graphs.format import evaluate
from corpus.values import Tensor as Array
from generators.language.values import RandomSource

Dim: TypeAlias = int | str
"""A size, or the arithmetic of symbols: `n`, `(n + 1) * 2`."""
Json: TypeAlias = Any

FLOATS = ("float32", "float64", "float16")
SIGNED = ("int64", "int32", "int16", "int8")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
BOOL = "bool"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of one dtype and known rank."""

    dtype: str
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return self.dtype in FLOATS

    @property
    def is_static(self) -> bool:
        """Whether no dim is symbolic."""
        return all(isinstance(dim, int) for dim in self.shape)

    def of(self, dtype: str) -> Tensor:
        """The same shape of another dtype."""
        return Tensor(dtype, self.shape)

    def shaped(self, *dims: Dim) -> Tensor:
        """The same dtype of another shape."""
        return Tensor(self.dtype, dims)


@dataclass(frozen=True, slots=True)
class Fields:
    """A tuple."""

    fields: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """A shape as a value."""

    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """A function, of one signature."""

    params: tuple[Type, ...]
    result: Type


Type: TypeAlias = Tensor | Fields | Sizes | Arrow


def type_to_json(told: Type) -> Json:
    """The type as documents of the format spell it."""
    match told:
        case Tensor(dtype, shape):
            return {"tensor": [dtype, list(shape), len(shape)]}
        case Fields(fields):
            return {"tuple_type": [type_to_json(each) for each in fields]}
        case Sizes(dims):
            return {"shape_type": [list(dims), len(dims)]}
        case Arrow(params, result):
            return {"function_type": [[type_to_json(each) for each in params], type_to_json(result), True]}


def size_of(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The size of a dim where its symbols have these."""
    return dim if isinstance(dim, int) else evaluate(dim, sizes)


def concrete(shape: tuple[Dim, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes of a shape where its symbols have these."""
    return tuple(size_of(dim, sizes) for dim in shape)


def plus(left: Dim, right: Dim) -> Dim:
    """The sum of two dims."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if right == 0 or left == 0:
        return left if right == 0 else right
    return f"{_term(left)} + {_term(right)}"


def times(left: Dim, right: Dim) -> Dim:
    """The product of two dims."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if right == 1 or left == 1:
        return left if right == 1 else right
    return f"{_term(left)} * {_term(right)}"


def product(dims: tuple[Dim, ...]) -> Dim:
    """The number of elements."""
    found: Dim = 1
    for dim in dims:
        found = times(found, dim)
    return found


def _term(dim: Dim) -> str:
    return f"({dim})" if isinstance(dim, str) and " " in dim else str(dim)


@dataclass(frozen=True, slots=True)
class Within:
    """The range that an operand's values must lie in; None for an open end."""

    low: float | None = None
    high: float | None = None
    is_nonzero: bool = False

    @property
    def is_open(self) -> bool:
        """Say whether every value of the dtype is allowed."""
        return self.low is None and self.high is None and not self.is_nonzero


ANY = Within()


@dataclass(frozen=True, slots=True)
class Want:
    """An operand to be grown: a value of this type within these bounds; with `is_named` no constant."""

    type: Type
    within: Within = ANY
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """An operand that must be a constant of these values, such as indices that may not repeat."""

    array: Array


@dataclass(frozen=True, slots=True)
class Literal:
    """An argument that is no value: a shape, a number, a string, as documents spell it."""

    item: Json


@dataclass(frozen=True, slots=True)
class Group:
    """A tuple of arguments."""

    members: tuple[Argument, ...]


Argument: TypeAlias = Want | Given | Literal | Group


@dataclass(frozen=True, slots=True)
class Call:
    """A solution: the arguments and attributes of a call, and its result's type.

    `at` is the field of the result that is the target, where the result is a tuple.
    """

    args: tuple[Argument, ...]
    result: Type
    attributes: tuple[str, Mapping[str, Json]] | None = None
    at: int | None = None


class Likely(Enum):
    """The targets from which a sampler starts."""

    FLOAT = "a tensor of floats"
    NUMBER = "a tensor of numbers"
    INTEGER = "a tensor of integers"
    BOOL = "a tensor of bools"
    ANYTHING = "a tensor of anything"


@dataclass(frozen=True, slots=True)
class Asking:
    """The facts that a solver may ask for: draws, sizes of symbols, and usual dims and dtypes."""

    draws: RandomSource
    sizes: Mapping[str, int]
    dims: Sequence[Dim]
    floats: Sequence[str] = ("float32",)
    integers: Sequence[str] = ("int64", "int32")
    most_rank: int = 4
    binned: float = 0.0

    def dim(self) -> Dim:
        """Draw one of the dims that the program uses."""
        return self.draws.pick(self.dims)

    def static(self) -> int:
        """A dim without symbols."""
        return size_of(self.draws.pick([dim for dim in self.dims if isinstance(dim, int)] or [2]), self.sizes)

    def shape(self, low: int = 0, high: int | None = None) -> tuple[Dim, ...]:
        """Dims of a rank between these."""
        count = self.draws.between(low, self.most_rank if high is None else high)
        return tuple(self.dim() for _ in range(count))

    def concrete(self, shape: tuple[Dim, ...]) -> tuple[int, ...]:
        """Give the shape in the run: every symbolic dim replaced by its size."""
        return concrete(shape, self.sizes)

    def size(self, dim: Dim) -> int:
        """Give a dim's size in the run."""
        return size_of(dim, self.sizes)

    def amount(self, usual: Sequence[int], most: int) -> int:
        """Draw an attribute's number: a usual one, or by the policy's rate one of a bin up to `most`."""
        return self.draws.amount(usual, most, self.binned)

    def axis(self, axis: int, rank: int) -> int:
        """The axis, now and then counted from the back."""
        return axis - rank if self.draws.chance(0.25) else axis

    def sized_axis(self, shape: tuple[Dim, ...], most: float = math.inf) -> int | None:
        """Draw an axis that has a size, from one on up to the most; None where there is none."""
        sized = [at for at, dim in enumerate(shape) if isinstance(dim, int) and 1 <= dim <= most]
        return self.draws.pick(sized) if sized else None

    def float(self) -> str:
        """Draw a float dtype."""
        return self.draws.pick(self.floats)

    def integer(self) -> str:
        """Draw an integer dtype."""
        return self.draws.pick(self.integers)


Recogniser = Callable[[Tensor], bool]
Solver = Callable[[Asking, Tensor], Call | None]


def anything(told: Tensor) -> bool:
    """Take every dtype."""
    return True


def is_float(told: Tensor) -> bool:
    """Take floats."""
    return told.is_float


def is_number(told: Tensor) -> bool:
    """Take all but bools."""
    return told.dtype != BOOL


def is_static(told: Tensor) -> bool:
    """Take what has no symbolic dims."""
    return told.is_static


def is_filled(told: Tensor) -> bool:
    """Take what has no symbolic dims and none of 0."""
    return told.is_static and 0 not in told.shape


def of(*dtypes: str) -> Recogniser:
    """Take these dtypes."""
    return lambda told: told.dtype in dtypes


def ranked(least: int, most: int = sys.maxsize) -> Recogniser:
    """Take ranks between these."""
    return lambda told: least <= told.rank <= most


def all_of(*recognisers: Recogniser) -> Recogniser:
    """Take what each of these takes."""
    return lambda told: all(recognise(told) for recognise in recognisers)


@dataclass(frozen=True)
class Operator:
    """One operator: whether a call of it can have a type, and a call that has it.

    The laws: where the recogniser takes a type of static dims, the solver finds a call, or says None for
    want of room in the types of programs; whatever the sampler gives, TVM infers the same type. `family`
    names its file, `weight` says how often it is drawn.
    """

    name: str
    recognise: Recogniser
    solve: Solver
    likely: Likely = Likely.FLOAT
    ranks: tuple[int, int] = (0, 4)
    weight: float = 1.0
    family: str = field(default="", compare=False)

    def sample(self, asking: Asking, tries: int = 20) -> tuple[Tensor, Call] | None:
        """A result's type and a call that has it."""
        for _ in range(tries):
            wanted = Tensor(_dtype(asking, self.likely), asking.shape(*self.ranks))
            if self.recognise(wanted) and (call := self.solve(asking, wanted)) is not None:
                return wanted, call
        return None


def _dtype(asking: Asking, likely: Likely) -> str:
    if likely is Likely.NUMBER:
        return asking.float() if asking.draws.chance(0.7) else asking.integer()
    if likely is Likely.ANYTHING:
        return asking.draws.pick([asking.float(), asking.integer(), "bool"])
    if likely is Likely.INTEGER:
        return asking.integer()
    return "bool" if likely is Likely.BOOL else asking.float()


def target_of(call: Call) -> Type:
    """The type that the call was solved for."""
    if call.at is None:
        return call.result
    assert isinstance(call.result, Fields)
    return call.result.fields[call.at]


def shape_literal(shape: Sequence[Dim]) -> Literal:
    """Write a shape as an operand (Relax's ShapeExpr)."""
    return Literal({"shape": list(shape)})


def number(value: float | Dim, dtype: str = "int64") -> Literal:
    """A number, or arithmetic of symbols, as an argument."""
    return Literal({"prim": [dtype, value]})


def numbers(values: Sequence[int]) -> Literal:
    """A tuple of integers as an argument."""
    return Literal({"tuple": [{"prim": ["int64", int(value)]} for value in values]})
