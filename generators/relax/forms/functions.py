"""Forms with scopes of their own: branches, local functions, functions of the module, recursion."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from generators.relax.choices import any_tensor
from generators.relax.leaves import Form, Growth, drawn
from generators.relax.making import Frame, Helper, Known, graph_json
from generators.relax.operator import ANY, BOOL, Arrow, Json, Tensor, Type, Within, concrete, type_to_json
from oracles.worker.relax_reference.program import wide

_BRANCH_DEPTH = 3
_UNTAKEN = 0.15
"""How often the branch that is not run is more than a value: what it frees TVM 0.27 gives to what is run."""


def grow_branch(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """A condition, then each branch in a frame of its own."""
    if frame.depth >= _BRANCH_DEPTH:
        return None
    condition = growth.grow(frame, Tensor(BOOL, ()), ANY, min(fuel - 1, 2))
    graphs = []
    for is_taken in (bool(condition.value), not condition.value):
        inner = frame.within()
        is_grown = is_taken or growth.draws.chance(_UNTAKEN)
        result = growth.grow(inner, target, ANY, max(1, fuel // 2) if is_grown else 0)
        graphs.append({"graph": graph_json(inner, [result.name])})
    return growth.bind(frame, "if", [condition.ref, *graphs], target)


_HELPER_DEPTH = 2


def grow_helper(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Call one that gives the type, or write one."""
    if not target.is_static or frame.depth >= _HELPER_DEPTH:
        return None
    known = [each for each in growth.helpers if each.result == target]
    chosen = (
        growth.draws.pick(known)
        if known and growth.draws.chance(0.5)
        else written(growth, frame, target, fuel)
    )
    return _called(growth, frame, {"function": chosen.name}, chosen.params, target, fuel)


def _called(
    growth: Growth, frame: Frame, function: Json, params: Sequence[Type], target: Tensor, fuel: int
) -> Known:
    """A call with values of the parameters' types."""
    operands = [growth.grow(frame, each, ANY, fuel // 3) for each in params]
    return growth.bind(frame, "call", [function, *(each.ref for each in operands)], target)


def written(growth: Growth, frame: Frame, target: Tensor, fuel: int) -> Helper:
    """A new function; where it is polymorphic a dim of its first parameter and of its result is a symbol."""
    symbol, place = _generalised(growth, target)
    inner = Frame(depth=frame.depth + 1)
    result: Tensor = target
    if symbol:
        size = target.shape[place]
        inner.symbols, inner.sizes = [symbol], {symbol: int(size)}
        result = target.shaped(*(symbol if at == place else dim for at, dim in enumerate(target.shape)))
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
    """A further parameter of a function, with a value that stands for what it is called with."""
    assert isinstance(told, Tensor)
    name = growth.fresh("p")
    array = drawn(growth.draws, told.dtype, concrete(told.shape, frame.all_sizes()), ANY)
    frame.inputs.append([name, told.dtype, list(told.shape)])
    growth.types[name] = told
    found = Known(name, told, wide(np.asarray(array)))
    frame.known.append(found)
    return found


def _generalised(growth: Growth, target: Tensor) -> tuple[str, int]:
    """A symbol for a dim, and its place; an empty one mostly."""
    is_general = target.rank and growth.draws.chance(0.4)
    return (growth.fresh("k"), growth.draws.below(target.rank)) if is_general else ("", 0)


_CLOSURE_DEPTH = 2
_SYMBOLIC = 0.1
"""How often its result has symbols of the function around it: TVM 0.27 forgets these when lifting."""
_RENAMED = 0.03
"""How often a closure is called by another name: TVM 0.27 cannot lift it then."""


def grow_closure(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Written, then called with values of its parameters' types; now and then under another name."""
    if frame.depth >= _CLOSURE_DEPTH:
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
        function = growth.bind(frame, "alias", [function.ref], told)
    return _called(growth, frame, function.ref, params, target, fuel)


def grow_maker(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
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
    returned = growth.bind(frame, "call", [{"function": name}, first.ref], told)
    operand = growth.grow(frame, param, ANY, fuel // 3)
    return growth.bind(frame, "call", [returned.ref, operand.ref], target)


_COUNT = Tensor("int64", ())
_MOST_TIMES = 3


def grow_recursion(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """`f(k, x) = f(k - 1, step(x)) if k > 0 else x`; of two functions each calls the other."""
    if not target.is_static or frame.depth >= 1:
        return None
    names = [growth.fresh("f") for _ in range(growth.draws.pick([1, 1, 2]))]
    for place, name in enumerate(names):
        growth.functions[name] = write_recursion(growth, names[(place + 1) % len(names)], target, fuel)
    times = growth.constant(np.array(growth.draws.between(1, _MOST_TIMES), "int64"))
    start = growth.grow(frame, target, ANY, fuel // 2)
    return growth.bind(frame, "call", [{"function": names[0]}, times.ref, start.ref], target)


def write_recursion(growth: Growth, callee: str, target: Tensor, fuel: int) -> Json:
    """Build one of the functions.

    Its result type is declared, because it is called before its body is known.
    """
    outer = Frame(depth=1)
    count, value = (add_parameter(growth, outer, each) for each in (_COUNT, target))
    zero, one = (growth.constant(np.array(number, "int64")) for number in (0, 1))
    more = growth.bind(outer, "relax.greater", [count.ref, zero.ref], Tensor(BOOL, ()))
    again = outer.within()
    less = growth.bind(again, "relax.subtract", [count.ref, one.ref], _COUNT)
    step = growth.grow(again, target, ANY, max(1, fuel // 2))
    called, result = growth.fresh(), growth.fresh()
    args = [{"function": callee}, less.ref, step.ref]
    growth.place(called, "call", args)
    again.bindings.append([called, "call", args, {}])
    branches = [graph_json(again, [called]), {"inputs": [], "bindings": [], "outputs": [value.name]}]
    parts = [more.ref, *({"graph": each} for each in branches)]
    growth.place(result, "if", parts)
    outer.bindings.append([result, "if", parts, {}])
    return graph_json(outer, [result], {"pure": True, "returns": type_to_json(target)})


FORMS: dict[str, Form] = {
    "branch": grow_branch,
    "helper": grow_helper,
    "closure": grow_closure,
    "maker": grow_maker,
    "recursion": grow_recursion,
}
