"""A function of the module and a call of it: new or known, of the target's own dims or polymorphic in one."""

from __future__ import annotations

from typing import Any

import numpy as np

from generators.relax.choices import any_tensor
from generators.relax.frame import Frame, Known, graph_json
from generators.relax.growing import Growth
from generators.relax.leaves import drawn
from generators.relax.making import Helper
from generators.relax.operator import ANY, Within
from generators.relax.types import Dim, Tensor, Type, concrete, type_to_json
from oracles.worker.relax_reference.program import wide

NAME = "helper"
MOST_DEPTH = 2


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Call one that gives the type, or write one."""
    if not target.is_static or frame.depth >= MOST_DEPTH:
        return None
    known = [each for each in growth.helpers if each.result == target]
    chosen = (
        growth.draws.pick(known)
        if known and growth.draws.chance(0.5)
        else written(growth, frame, target, fuel)
    )
    operands = [growth.grow(frame, each, ANY, fuel // 3) for each in chosen.params]
    args = [{"function": chosen.name}, *({"ref": each.name} for each in operands)]
    return growth.bind(frame, "call", args, target)


def written(growth: Growth, frame: Frame, target: Tensor, fuel: int) -> Helper:
    """A new function; where it is polymorphic a dim of its first parameter and of its result is a symbol."""
    symbol, places = _generalised(growth, target)
    inner = Frame(depth=frame.depth + 1)
    result: Tensor = target
    if symbol:
        size = target.shape[places[0]]
        inner.symbols, inner.sizes = [symbol], {symbol: int(size)}
        result = Tensor(target.dtype, _replaced(target.shape, places, symbol))
    others = [any_tensor(growth.asking(Frame())) for _ in range(growth.draws.below(2))]
    params = [result, *others]
    for each in params:
        add_parameter(growth, inner, each)
    made = growth.grow(inner, result, ANY, max(1, fuel // 2))
    name = growth.fresh("f")
    facts: dict[str, Any] = {"pure": True}
    if growth.draws.chance(0.2):
        facts["returns"] = type_to_json(result)
    growth.functions[name] = graph_json(inner, [made.name], facts)
    helper = Helper(name, (target, *others), target)
    growth.helpers.append(helper)
    return helper


def add_parameter(growth: Growth, frame: Frame, told: Type) -> Known:
    """Return a further parameter of a function, with a value that stands for what it is called with."""
    assert isinstance(told, Tensor)
    name = growth.fresh("p")
    array = drawn(growth.draws, told.dtype, concrete(told.shape, frame.all_sizes()), ANY)
    frame.inputs.append([name, told.dtype, list(told.shape)])
    growth.types[name] = told
    found = Known(name, told, wide(np.asarray(array)))
    frame.known.append(found)
    return found


def _generalised(growth: Growth, target: Tensor) -> tuple[str, list[int]]:
    if not target.rank or not growth.draws.chance(0.4):
        return "", []
    return growth.fresh("k"), [growth.draws.below(target.rank)]


def _replaced(shape: tuple[Dim, ...], places: list[int], symbol: str) -> tuple[Dim, ...]:
    return tuple(symbol if at in places else dim for at, dim in enumerate(shape))
