"""A match_cast that says what is known: of a value, or of one whose type was made loose before."""

from __future__ import annotations

from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import Within
from generators.relax.types import Tensor, type_to_json

NAME = "cast"


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Bind a match_cast of a value of the target type."""
    found = growth.grow(frame, target, within, fuel - 1)
    return growth.bind(frame, "match_cast", [{"ref": found.name}, type_to_json(target)], target)
