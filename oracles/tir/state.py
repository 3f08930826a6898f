"""The state of a run: its variables, its memory seen through buffers, and the steps that are left."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from oracles.tir.scalars import UNDEFINED, Noise, NotModelled, Scalar, Undefined


@dataclass(eq=False, slots=True)
class Memory:
    """One allocation: a value for each element."""

    dtype: str
    cells: list[Any]


@dataclass(frozen=True, slots=True)
class Address:
    """A place in memory, as `buffer_data` and `address_of` give it."""

    memory: Memory
    start: int


@dataclass(slots=True)
class View:
    """A buffer: its memory, dims, strides, the place of its first element, and where its data begins."""

    name: str
    memory: Memory
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    start: int = 0

    def place(self, indices: Sequence[Any]) -> int:
        """An element's place in memory; Undefined if the indices leave the shape or are undefined."""
        place = self.offset
        for index, dim, stride in zip(indices, self.shape, self.strides, strict=True):
            if index is UNDEFINED:
                raise Undefined(f"an index of {self.name} is undefined")
            if not 0 <= index < dim:
                raise Undefined(f"{self.name} is accessed at {index}, out of its {dim}")
            place += index * stride
        if not 0 <= place < len(self.memory.cells):
            raise Undefined(f"{self.name} is accessed out of its memory")
        return place


def compact(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    return tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Count the cells up to the last element."""
    last = sum((dim - 1) * stride for dim, stride in zip(shape, strides, strict=True))
    return 1 + last if all(shape) else 0


def is_in_rows(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether each row begins after the one before: TVM allocates the first dim's steps for fresh memory."""
    dims = [each for place, each in enumerate(zip(shape, strides, strict=True)) if each[0] != 1 or not place]
    sizes = [*(dim * stride for dim, stride in dims[1:]), 1]
    return not all(shape) or all(
        stride >= max(size, 1) for (_, stride), size in zip(dims, sizes, strict=False)
    )


@dataclass(slots=True)
class Independent:
    """A parallel loop: which iteration touched each cell last, and how."""

    kind: str
    iteration: int = 0
    written: dict[tuple[int, int], int] = field(default_factory=dict)
    read: dict[tuple[int, int], int] = field(default_factory=dict)
    kept: list[Memory] = field(default_factory=list)

    def note_read(self, memory: Memory, place: int) -> None:
        """Undefined where another iteration wrote the cell."""
        key = id(memory), place
        if self.written.get(key, self.iteration) != self.iteration:
            raise Undefined(f"iterations of a {self.kind} loop depend on each other")
        if self.read.setdefault(key, self.iteration) != self.iteration:
            self.read[key] = -1

    def note_write(self, memory: Memory, place: int) -> None:
        """Undefined where another iteration wrote or read the cell."""
        key = id(memory), place
        seen = (self.written.get(key, self.iteration), self.read.get(key, self.iteration))
        if seen != (self.iteration, self.iteration):
            raise Undefined(f"iterations of a {self.kind} loop depend on each other")
        self.written[key] = self.iteration

    def keep(self, memory: Memory) -> None:
        """Hold on to memory allocated inside, so that no other gets its identity."""
        self.kept.append(memory)


@dataclass(slots=True)
class Pipelined:
    """A software pipeline: which statement of which round touched each cell, and whether it wrote.

    TVM takes the annotation's word that its order of rounds and stages changes nothing.
    """

    stages: tuple[int, ...]
    orders: tuple[int, ...]
    iteration: int = 0
    at: int = 0
    touched: dict[tuple[Memory, int], set[tuple[int, int, bool]]] = field(default_factory=dict)

    def note_read(self, memory: Memory, place: int) -> None:
        """Undefined where what writes the cell before comes later in the pipeline."""
        self._note(memory, place, writes=False)

    def note_write(self, memory: Memory, place: int) -> None:
        """Undefined where what touches the cell before comes later in the pipeline."""
        self._note(memory, place, writes=True)

    def keep(self, memory: Memory) -> None:
        """Nothing: the cells hold on to their memory."""

    def _note(self, memory: Memory, place: int, *, writes: bool) -> None:
        before = self.touched.setdefault((memory, place), set())
        now = self._when(self.iteration, self.at)
        if any((wrote or writes) and self._when(round_, at) > now for round_, at, wrote in before):
            raise Undefined("stages of a pipeline depend on each other")
        before.add((self.iteration, self.at, writes))

    def _when(self, iteration: int, at: int) -> tuple[int, int]:
        return iteration + self.stages[at], self.orders[at]


@dataclass(slots=True)
class Declared:
    """The reads and writes that a block declared: by memory, boxes of places through a view."""

    name: str
    reads: list[tuple[View, tuple[tuple[int, int], ...]]]
    writes: list[tuple[View, tuple[tuple[int, int], ...]]]
    own: set[int] = field(default_factory=set)

    def check(self, view: View, indices: Sequence[int], *, writing: bool) -> None:
        """Undefined where a block does what it does not say: passes rely on what it says."""
        if id(view.memory) in self.own:
            return
        boxes = self.writes if writing else [*self.reads, *self.writes]
        mine = [ranges for one, ranges in boxes if one.memory is view.memory]
        exact = [ranges for one, ranges in boxes if one is view]
        if mine and not exact:
            return
        if not any(
            all(low <= index < high for index, (low, high) in zip(indices, ranges, strict=True))
            for ranges in exact
        ):
            verb = "writes" if writing else "reads"
            raise Undefined(f"block {self.name} {verb} {view.name} where it does not say so")


@dataclass(frozen=True, slots=True)
class Routine:
    """A function that others call: its parameters' names, and what it does."""

    params: tuple[str, ...]
    act: "Callable[[State], object]"


@dataclass(slots=True)
class Claimed:
    """The cells that the blocks of a name say they write, and those that they wrote."""

    said: set[tuple[Memory, int]] = field(default_factory=set)
    written: set[tuple[Memory, int]] = field(default_factory=set)

    def say(self, block: Declared) -> None:
        """Take in what one of them says of memory that is not its own."""
        for view, ranges in block.writes:
            if id(view.memory) not in block.own:
                places = product(*(range(low, high) for low, high in ranges))
                self.said.update((view.memory, view.place(indices)) for indices in places)


@dataclass(slots=True)
class State:
    """One run. `noise` moves the results of what is not exact, None leaves them; `is_rough`: there were
    some. `routines` are the functions that are called. `claims` are what blocks say, by name, where wanted.
    """

    steps: int
    noise: Noise | None = None
    vars: dict[str, Any] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    loops: list[Independent | Pipelined] = field(default_factory=list)
    blocks: list[Declared] = field(default_factory=list)
    returned: Any = None
    is_rough: bool = False
    routines: "Mapping[str, Routine]" = field(default_factory=dict)
    claims: dict[str, Claimed] | None = None

    def enter(self, block: Declared) -> None:
        """Go into a block that says what it does."""
        self.blocks.append(block)
        if self.claims is not None:
            self.claims.setdefault(block.name, Claimed()).say(block)

    def step(self) -> None:
        """Count one statement; NotModelled when it has been too many."""
        self.steps -= 1
        if self.steps < 0:
            raise NotModelled("a program of so many steps")

    def call(self, name: str, operands: Sequence[Any]) -> None:
        """Do a routine; its names are its own."""
        routine, outside = self.routines[name], (self.vars, self.views)
        self.vars, self.views = dict(zip(routine.params, operands, strict=True)), {}
        routine.act(self)
        self.vars, self.views = outside
        if self.returned is not None:
            raise NotModelled("a function that is called and returns a value")

    def read(self, name: str, indices: Sequence[Scalar]) -> Scalar:
        """Read an element of a buffer."""
        view = self.views[name]
        place = view.place(indices)
        for loop in self.loops:
            loop.note_read(view.memory, place)
        for block in self.blocks:
            block.check(view, indices, writing=False)
        return view.memory.cells[place]

    def write(self, name: str, indices: Sequence[Scalar], value: Scalar) -> None:
        """Put a value into a buffer."""
        view = self.views[name]
        place = view.place(indices)
        for loop in self.loops:
            loop.note_write(view.memory, place)
        for block in self.blocks:
            block.check(view, indices, writing=True)
            if self.claims is not None:
                self.claims[block.name].written.add((view.memory, place))
        view.memory.cells[place] = value
