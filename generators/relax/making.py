"""A program while it is made: its bindings with their values, and what it may still cost.

Every binding is run in numpy as it is made, so the values that flow are known; what would overflow is taken
back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corpus.values import Tensor as Array
from generators.language.profile import UNLIMITED, Budget
from generators.language.values import RandomSource
from generators.relax.choices import Choices
from generators.relax.operator import Asking, Dim, Fields, Json, Tensor, Type, concrete
from generators.relax.watched import (
    MOST_FLOAT,
    MOST_HALF,
    Cost,
    TooLarge,
    Unsound,
    Watched,
    deepened,
    is_held,
    names_of,
)
from oracles.worker.relax_reference.program import wide
from oracles.worker.relax_reference.rule import NotKnown


@dataclass(frozen=True, slots=True)
class Known:
    """A name that may be read, its type, and the value that it has in the run that is watched."""

    name: str
    type: Type
    value: Any


@dataclass(frozen=True, slots=True)
class Mark:
    """A point in the growth of a body."""

    inputs: int
    bindings: int
    known: int
    symbols: int


@dataclass
class Frame:
    """A function or a branch; one that lies within another one reads its names too.

    `sizes` are those of the symbols that may be written here; `takes_inputs` says that growing may add a
    parameter, which only main does.
    """

    inputs: list[Json] = field(default_factory=list)
    bindings: list[Json] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    outer: Frame | None = None
    takes_inputs: bool = False
    depth: int = 0

    def readable(self) -> list[Known]:
        """All names that may be read here."""
        return [*(self.outer.readable() if self.outer else ()), *self.known]

    def all_symbols(self) -> list[str]:
        """Name the symbolic dims of this body and of those around it, outermost first."""
        return [*(self.outer.all_symbols() if self.outer else ()), *self.symbols]

    def all_sizes(self) -> dict[str, int]:
        """Give each symbolic dim of this body and of those around it the size it has in the run."""
        return {**(self.outer.all_sizes() if self.outer else {}), **self.sizes}

    def values(self) -> dict[str, Any]:
        """Give the values that a new binding may read, by name."""
        return {each.name: each.value for each in self.readable()}

    def mark(self) -> Mark:
        """Remember how far the body has grown, to take a failed attempt back."""
        return Mark(len(self.inputs), len(self.bindings), len(self.known), len(self.symbols))

    def back_to(self, mark: Mark) -> None:
        """Undo all growth since the mark."""
        del self.inputs[mark.inputs :]
        del self.bindings[mark.bindings :]
        del self.known[mark.known :]
        del self.symbols[mark.symbols :]

    def within(self) -> Frame:
        """A body inside this one."""
        return Frame(outer=self, depth=self.depth + 1)


def graph_json(frame: Frame, outputs: list[str], facts: Mapping[str, Json] | None = None) -> Json:
    """The body as a document spells it."""
    graph = {"inputs": frame.inputs, "bindings": frame.bindings, "outputs": outputs}
    return {**graph, "facts": dict(facts)} if facts else graph


_NOTHING = Cost()
_DIMS = 3
"""How many sizes a program keeps to, so that what one operator makes fits what another one reads."""


@dataclass(frozen=True, slots=True)
class Helper:
    """A function of the module that further calls may use."""

    name: str
    params: tuple[Type, ...]
    result: Type


class Making:
    """One program while it is made. `left` counts the bindings that may still be made."""

    def __init__(self, draws: RandomSource, policy: Choices, nodes: int, budget: Budget = UNLIMITED) -> None:
        self.draws = draws
        self.policy = policy
        self.budget = budget
        self.cost = Cost()
        self.depths: dict[str, int] = {}
        """By name of a binding, the operators of the longest chain that ends in it."""
        self.left = nodes
        self.main = Frame(takes_inputs=True)
        self.feeds: dict[str, Array] = {}
        self.constants: dict[str, Array] = {}
        self.functions: dict[str, Json] = {}
        self.opaque: dict[str, Json] = {}
        self.helpers: list[Helper] = []
        self.types: dict[str, Type] = {}
        self.results: list[str] = []
        """Names that the program gives besides what was grown for."""
        self.hidden: dict[str, Any] = {}
        """Values of names that only the pattern that made them reads."""
        self._names = 0
        self.floats = tuple(self._palette(policy.floats))
        self.integers = tuple(self._palette(policy.integers))
        self.dims = tuple(draws.sample(policy.dims, min(_DIMS, len(policy.dims))))

    def _palette(self, weights: Mapping[str, float]) -> Iterator[str]:
        """Yield two dtypes that this program keeps to, the first of them mostly."""
        first, other = (self.draws.weighted(tuple(weights), tuple(weights.values())) for _ in range(2))
        yield from (first, first, other)

    def fresh(self, letter: str = "v") -> str:
        """Make a name that the program does not hold yet."""
        self._names += 1
        return f"{letter}{self._names}"

    def skip_names(self, count: int) -> None:
        """Make none of the first `count` names."""
        self._names = max(self._names, count)

    @property
    def most(self) -> float:
        """The largest magnitude that a value may have: float16 holds less."""
        return MOST_HALF if "float16" in self.floats else MOST_FLOAT

    def asking(self, frame: Frame) -> Asking:
        """What a solver may use within a frame."""
        symbols = frame.all_symbols()
        own = [dim for dim in self.dims if self.budget.fits((dim,))] or [1]
        dims: tuple[Dim, ...] = (*own, *symbols, *symbols)
        return Asking(
            self.draws,
            frame.all_sizes(),
            dims,
            self.floats,
            self.integers,
            self.policy.most_rank,
            self.policy.binned,
        )

    # Values

    def run(self) -> Watched:
        """A run that sees the program as it is now."""
        document = {
            "main": {},
            "constants": {},
            "functions": self.functions,
            "opaque": self.opaque,
            "facts": {},
        }
        run = Watched(document, self.most)
        run.constants = {name: wide(value) for name, value in self.constants.items()}
        return run

    def bind(
        self, frame: Frame, op: str, args: list[Json], told: Type, kwargs: Mapping[str, Json] | None = None
    ) -> Known:
        """A new binding with its value; Unsound for a value that no program may hold."""
        name = self.fresh()
        value = self.put(frame, name, op, args, kwargs)
        self._agree(op, told, value, frame)
        return self.know(frame, name, told, value)

    def bind_on(
        self,
        hidden: Known,
        frame: Frame,
        op: str,
        args: list[Json],
        told: Type,
        kwargs: Mapping[str, Json] | None = None,
    ) -> Known:
        """A new binding that reads a value which no other growth may read."""
        inner = Frame(known=[hidden], outer=frame)
        made = self.bind(inner, op, args, told, kwargs)
        frame.bindings += inner.bindings
        frame.known.append(made)
        return made

    def put(
        self, frame: Frame, name: str, op: str, args: list[Json], kwargs: Mapping[str, Json] | None = None
    ) -> Any:
        """Add a binding that nothing reads by its type, and return its value."""
        run, given = self.run(), dict(kwargs or {})
        known = {**run.constants, **frame.values()}
        value = run.value(name, op, args, given, known, frame.all_sizes())
        read = [known[each] for each in names_of(args) if each in known]
        self.pay(op, read, value, run.inside if op == "call" else _NOTHING)
        self.place(name, op, args)
        frame.bindings.append([name, op, args, given])
        return value

    def pay(self, op: str, read: list[Any], value: Any, inside: Cost = _NOTHING) -> None:
        """Count what a value costs; TooLarge where the budget does not hold it.

        A branch has paid for itself as it grew, so that `inside` is what a called function costs.
        """
        cost = self.cost.plus(op, read, value).and_also(inside)
        if not is_held(self.budget, cost, value):
            raise TooLarge(op)
        self.cost = cost

    def place(self, name: str, op: str, args: Json) -> None:
        """Note the longest chain that ends in a new binding; TooLarge where the budget does not hold it.

        What an attempt that was undone said of the name is forgotten.
        """
        self.types.pop(name, None)
        self.depths[name] = deepened(self.depths, op, args)
        if not self.budget.reaches(self.depths[name]):
            raise TooLarge(op)

    def know(self, frame: Frame, name: str, told: Type, value: Any) -> Known:
        """Note a value of a body, with its type and what it was in the run."""
        self.left -= 1
        self.types[name] = told
        found = Known(name, told, value)
        frame.known.append(found)
        return found

    def _agree(self, op: str, told: Type, value: Any, frame: Frame) -> None:
        """An entry whose types and values differ is a mistake of ours."""
        if isinstance(told, Tensor) and isinstance(value, np.ndarray):
            wanted = concrete(told.shape, frame.all_sizes())
            kind = "f" if told.is_float else np.dtype(told.dtype).kind
            if wanted != value.shape or kind != value.dtype.kind:
                raise AssertionError(f"{op}: {told} {wanted}, but {value.dtype}{value.shape}")
        elif isinstance(told, Fields):
            for field, part in zip(told.fields, value, strict=True):
                self._agree(op, field, part, frame)

    def constant(self, array: Array) -> Known:
        """A constant of the program; the same one where it is there already."""
        for name, value in self.constants.items():
            same = value.dtype == array.dtype and value.shape == array.shape
            if same and np.array_equal(value, array):
                return Known(name, Tensor(array.dtype.name, array.shape), wide(value))
        name = self.fresh("c")
        self.constants[name] = array
        return Known(name, Tensor(array.dtype.name, array.shape), wide(array))

    # Taking back

    @contextmanager
    def attempt(self, frame: Frame) -> Iterator[list[bool]]:
        """Grow on trial: undo the growth if it fails. Clear the list to keep it."""
        mark, left, names, cost = frame.mark(), self.left, self._names, self.cost
        stores = (self.feeds, self.constants, self.functions, self.opaque, self.hidden)
        lists: tuple[list[Any], ...] = (self.helpers, self.results)
        kept = [len(each) for each in (*stores, *lists)]
        is_lost = [True]
        try:
            yield is_lost
        except (Unsound, NotKnown, TooLarge):
            is_lost[:] = [True]
        if is_lost:
            frame.back_to(mark)
            self.left, self._names, self.cost = left, names, cost
            for store, count in zip(stores, kept, strict=False):
                for name in list(store)[count:]:
                    del store[name]
            for each, count in zip(lists, kept[len(stores) :], strict=True):
                del each[count:]
