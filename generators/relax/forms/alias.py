"""Another name for a value."""

from __future__ import annotations

from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import Within
from generators.relax.types import Tensor

NAME = "alias"


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Bind a second name to a value of the target type."""
    found = growth.grow(frame, target, within, fuel - 1)
    return growth.bind(frame, "alias", [{"ref": found.name}], target)
