"""A local function, which sees the names around it, and a call of it."""

from __future__ import annotations

from generators.relax.choices import any_tensor
from generators.relax.forms.helper import add_parameter
from generators.relax.frame import Frame, Known, graph_json
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Within
from generators.relax.types import Arrow, Tensor

NAME = "closure"
MOST_DEPTH = 2
_SYMBOLIC = 0.1
"""How often its result has symbols of the function around it: TVM 0.27 forgets these when lifting."""
_RENAMED = 0.03
"""How often a closure is called by another name: TVM 0.27 cannot lift it then."""


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Written, then called with values of its parameters' types; now and then under another name."""
    if frame.depth >= MOST_DEPTH:
        return None
    if not target.is_static and not growth.draws.chance(_SYMBOLIC):
        return None
    inner = frame.within()
    params = [any_tensor(growth.asking(frame)) for _ in range(growth.draws.between(1, 2))]
    if growth.draws.chance(0.5):
        params[0] = target
    for each in params:
        add_parameter(growth, inner, each)
    made = growth.grow(inner, target, ANY, max(1, fuel // 2))
    graph = {"graph": graph_json(inner, [made.name], {"pure": True})}
    told = Arrow(tuple(params), target)
    function = growth.bind(frame, "function", [graph], told)
    if growth.draws.chance(_RENAMED):
        function = growth.bind(frame, "alias", [{"ref": function.name}], told)
    operands = [growth.grow(frame, each, ANY, fuel // 3) for each in params]
    return growth.bind(
        frame, "call", [{"ref": function.name}, *({"ref": each.name} for each in operands)], target
    )
