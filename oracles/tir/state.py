"""What a running program knows: its variables, its buffers, how many steps it may still take."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from oracles.tir.memory import Declared, Independent, View
from oracles.tir.scalars import NotModelled, Scalar


@dataclass(slots=True)
class State:
    """One run. `noise` moves the results of what is not exact, None leaves them; `is_rough`: there were
    some.
    """

    steps: int
    noise: random.Random | None = None
    vars: dict[str, Any] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    loops: list[Independent] = field(default_factory=list)
    blocks: list[Declared] = field(default_factory=list)
    returned: Any = None
    is_rough: bool = False

    def step(self) -> None:
        """Count one statement; NotModelled when it has been too many."""
        self.steps -= 1
        if self.steps < 0:
            raise NotModelled("a program of so many steps")

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
        view.memory.cells[place] = value
