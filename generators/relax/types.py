"""The types of Relax values in a program under growth, and the arithmetic of their dims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from corpus.graphs.format import evaluate

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
