"""A program while it is made: its bindings with their values, and what it may still cost.

Every binding is run in numpy as it is made, so the values that flow are known; what would overflow is taken
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from generators.relax.operator import (
    Json,
    Type,
)


@dataclass(frozen=True, slots=True)
class Known:
    """A name that may be read, its type, and the value that it has in the run that is watched."""

    name: str
    type: Type
    value: Any

    @property
    def ref(self) -> Json:
        """The name as an argument."""
        return {"ref": self.name}


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

    @property
    def lists(self) -> tuple[list[Any], ...]:
        """All that grows, to take a failed attempt back."""
        return self.inputs, self.bindings, self.known, self.symbols

    def within(self) -> Frame:
        """A body inside this one."""
        return Frame(outer=self, depth=self.depth + 1)


def attributes(kind: str, **told: Json) -> dict[str, Json]:
    """The attributes of a call as a document spells them."""
    return {"attributes": [kind, told]}


def graph_json(frame: Frame, outputs: list[str], facts: Mapping[str, Json] | None = None) -> Json:
    """The body as a document spells it."""
    graph = {"inputs": frame.inputs, "bindings": frame.bindings, "outputs": outputs}
    return {**graph, "facts": dict(facts)} if facts else graph


@dataclass(frozen=True, slots=True)
class Helper:
    """A function of the module that further calls may use."""

    name: str
    params: tuple[Type, ...]
    result: Type
