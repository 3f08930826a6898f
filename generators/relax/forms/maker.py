"""A function of the module that returns a function, and a call of what it returns."""

from __future__ import annotations

from generators.relax.choices import any_tensor
from generators.relax.forms.helper import add_parameter
from generators.relax.frame import Frame, Known, graph_json
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Within
from generators.relax.types import Arrow, Tensor

NAME = "maker"


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """The returned closure holds what the function was called with."""
    if not target.is_static or frame.depth >= 1:
        return None
    held, param = (any_tensor(growth.asking(Frame())) for _ in range(2))
    outer = Frame(depth=frame.depth + 1)
    add_parameter(growth, outer, held)
    inner = outer.within()
    add_parameter(growth, inner, param)
    made = growth.grow(inner, target, ANY, max(1, fuel // 2))
    told = Arrow((param,), target)
    graph = {"graph": graph_json(inner, [made.name], {"pure": True})}
    closure = growth.bind(outer, "function", [graph], told)
    name = growth.fresh("f")
    growth.functions[name] = graph_json(outer, [closure.name], {"pure": True})
    first = growth.grow(frame, held, ANY, fuel // 3)
    returned = growth.bind(frame, "call", [{"function": name}, {"ref": first.name}], told)
    operand = growth.grow(frame, param, ANY, fuel // 3)
    return growth.bind(frame, "call", [{"ref": returned.name}, {"ref": operand.name}], target)
