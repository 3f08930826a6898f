"""An If: both branches have the type and read the names around them."""

from __future__ import annotations

from generators.relax.frame import Frame, Known, graph_json
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Within
from generators.relax.types import BOOL, Tensor

NAME = "branch"
MOST_DEPTH = 3


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Return a condition, then each branch in a frame of its own."""
    if frame.depth >= MOST_DEPTH:
        return None
    condition = growth.grow(frame, Tensor(BOOL, ()), ANY, min(fuel - 1, 2))
    graphs = []
    for _ in range(2):
        inner = frame.within()
        result = growth.grow(inner, target, ANY, max(1, fuel // 2))
        graphs.append({"graph": graph_json(inner, [result.name])})
    return growth.bind(frame, "if", [{"ref": condition.name}, *graphs], target)
