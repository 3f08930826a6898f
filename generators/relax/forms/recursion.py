"""Functions that call themselves, or each other, a number of times that is passed along."""

from __future__ import annotations

import numpy as np

from generators.relax.forms.helper import add_parameter
from generators.relax.frame import Frame, Known, graph_json
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Within
from generators.relax.types import BOOL, Json, Tensor, type_to_json

NAME = "recursion"
_COUNT = Tensor("int64", ())
_MOST_TIMES = 3


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """`f(k, x) = f(k - 1, step(x)) if k > 0 else x`; of two functions each calls the other."""
    if not target.is_static or frame.depth >= 1:
        return None
    names = [growth.fresh("f") for _ in range(growth.draws.pick([1, 1, 2]))]
    for place, name in enumerate(names):
        growth.functions[name] = written(growth, names[(place + 1) % len(names)], target, fuel)
    times = growth.constant(np.array(growth.draws.between(1, _MOST_TIMES), "int64"))
    start = growth.grow(frame, target, ANY, fuel // 2)
    return growth.bind(
        frame, "call", [{"function": names[0]}, {"ref": times.name}, {"ref": start.name}], target
    )


def written(growth: Growth, callee: str, target: Tensor, fuel: int) -> Json:
    """Build one of the functions.

    Its result type is declared, because it is called before its body is known.
    """
    outer = Frame(depth=1)
    count, value = (add_parameter(growth, outer, each) for each in (_COUNT, target))
    zero, one = (growth.constant(np.array(number, "int64")) for number in (0, 1))
    more = growth.bind(outer, "relax.greater", [{"ref": count.name}, {"ref": zero.name}], Tensor(BOOL, ()))
    again = outer.within()
    less = growth.bind(again, "relax.subtract", [{"ref": count.name}, {"ref": one.name}], _COUNT)
    step = growth.grow(again, target, ANY, max(1, fuel // 2))
    called, result = growth.fresh(), growth.fresh()
    args = [{"function": callee}, {"ref": less.name}, {"ref": step.name}]
    growth.place(called, "call", args)
    again.bindings.append([called, "call", args, {}])
    branches = [graph_json(again, [called]), {"inputs": [], "bindings": [], "outputs": [value.name]}]
    parts = [{"ref": more.name}, *({"graph": each} for each in branches)]
    growth.place(result, "if", parts)
    outer.bindings.append([result, "if", parts, {}])
    return graph_json(outer, [result], {"pure": True, "returns": type_to_json(target)})
