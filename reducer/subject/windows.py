"""What is left of dims: windows of positions, by the size that a dim has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Window: TypeAlias = tuple[int, int]
"""The first position kept, and the one after the last."""


@dataclass(frozen=True)
class Resize:
    """Windows by old dim: every axis of that size is cut to its window.

    `only` is the tensor and axis that is cut alone, whatever else is as long.
    """

    windows: tuple[tuple[int, Window], ...]
    only: tuple[str, int] | None = None

    def window(self, name: str, axis: int, dim: int) -> Window | None:
        """Return the part of a dim that is left, for the axis that is being shrunk; None for the whole."""
        if self.only is not None and self.only != (name, axis):
            return None
        return dict(self.windows).get(dim)

    def size_of(self, dim: int) -> int:
        """Return the size that a dim has under these windows."""
        low, high = dict(self.windows).get(dim, (0, dim))
        return high - low

    def index(self, name: str, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the slices that cut a tensor of this name and shape."""
        windows = [self.window(name, axis, dim) or (0, dim) for axis, dim in enumerate(shape)]
        return tuple(slice(low, high) for low, high in windows)
