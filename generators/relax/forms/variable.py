"""A name in scope: what makes a graph of a tree (the RFC's graph bindings)."""

from __future__ import annotations

from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.leaves import fitting
from generators.relax.operator import ANY, Within
from generators.relax.types import Tensor

NAME = "variable"


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """One that keeps the bounds, else one that is guarded."""
    found = fitting(frame, target, within) or fitting(frame, target, ANY)
    return growth.draws.pick(found) if found else None
