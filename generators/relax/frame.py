"""A body under growth: its inputs, its bindings, and what a new binding may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from generators.relax.operator import Dim, Json, Type


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


def has_plain(dim: Dim, name: str) -> bool:
    """Whether a dim is just this symbol, so that a value of the shape tells its size."""
    return dim == name
