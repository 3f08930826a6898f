"""Forms that call operators and PrimFuncs."""

from math import prod

import numpy as np

from corpus.graphs.program import PrimFunc
from corpus.tir.program import make_inputs
from corpus.tir.scopes import is_well_formed
from corpus.tir.tree import Function, Module
from generators.relax.leaves import Form, Growth
from generators.relax.making import Frame, Known
from generators.relax.operator import (
    ANY,
    Argument,
    Dim,
    Fields,
    Given,
    Group,
    Json,
    Literal,
    Tensor,
    Want,
    Within,
    target_of,
    type_to_json,
)
from generators.relax.ops import recognising
from generators.relax.stages import DTYPES, is_taken, primfunc
from oracles.tir.interpreter import interpret

_TRIES = 6


def grow_operator(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Solve for the type, grow the operands, bind the call, and take the field that was solved for."""
    policy = growth.policy
    weighed = [(each, policy.weight(each)) for each in recognising(target)]
    fitting, weights = [each for each, by in weighed if by > 0], [by for _, by in weighed if by > 0]
    for _ in range(_TRIES if fitting else 0):
        named = [each for each in fitting if each.name == growth.foremost]
        operator = named[0] if named else growth.draws.weighted(fitting, weights)
        call = operator.solve(growth.asking(frame), target)
        if call is None or not policy.accept(operator, call):
            continue
        growth.foremost = ""
        wants = list(_wants(call.args))
        operands = iter(growth.grow_all(frame, wants, fuel - 1))
        args = [_spelled(growth, each, operands) for each in call.args]
        told = {"attributes": [call.attributes[0], dict(call.attributes[1])]} if call.attributes else {}
        made = growth.bind(frame, operator.name, args, call.result, told)
        if call.at is None:
            return made
        assert isinstance(call.result, Fields)
        others = [at for at in range(len(call.result.fields)) if at != call.at]
        if others and growth.draws.chance(0.3):
            other = growth.draws.pick(others)
            growth.bind(frame, "getitem", [{"ref": made.name}, other], call.result.fields[other])
        return growth.bind(frame, "getitem", [{"ref": made.name}, call.at], target_of(call))
    return None


def _wants(args: tuple[Argument, ...]) -> list[Want]:
    found: list[Want] = []
    for each in args:
        if isinstance(each, Want):
            found.append(each)
        elif isinstance(each, Group):
            found += _wants(each.members)
    return found


def _spelled(growth: Growth, argument: Argument, operands: object) -> Json:
    if isinstance(argument, Literal):
        return argument.item
    if isinstance(argument, Given):
        return {"ref": growth.constant(argument.array).name}
    if isinstance(argument, Group):
        return {"tuple": [_spelled(growth, each, operands) for each in argument.members]}
    return {"ref": next(operands).name}  # type: ignore[call-overload]


PRIMFUNC_DTYPES = ("float32", "float64", "int32", "int64")


def grow_primfunc(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Operands of the target's dtype, read at places that the result's own give, and a formula of them."""
    if not target.is_static or target.dtype not in PRIMFUNC_DTYPES:
        return None
    draws = growth.draws
    reads = [read_of(growth, target, place) for place in range(draws.between(1, 3))]
    value: Json = reads[0][1]
    for _, read in reads[1:]:
        value = [draws.pick(["+", "-", "*", "max", "min"]), value, read]
    if draws.chance(0.4):
        number = float(draws.between(1, 3)) if target.is_float else draws.between(1, 3)
        value = [draws.pick(["+", "*", "max"]), value, number]
    types = [Tensor(target.dtype, shape) for shape, _ in reads]
    name = growth.fresh("prim")
    growth.opaque[name] = {
        "compute": {
            "operands": [[each.dtype, list(each.shape)] for each in types],
            "shape": list(target.shape),
            "dtype": target.dtype,
            "value": value,
        }
    }
    operands = growth.grow_all(frame, [Want(each, ANY) for each in types], fuel - 1)
    args = [{"function": name}, {"tuple": [{"ref": each.name} for each in operands]}]
    return growth.bind(frame, "relax.call_tir", args, target, {"types": [type_to_json(target)]})


def read_of(growth: Growth, target: Tensor, operand: int) -> tuple[tuple[Dim, ...], Json]:
    """An operand's shape and the element that is read: axes in another order, shifted or left out."""
    draws = growth.draws
    axes = draws.sample(range(target.rank), target.rank)
    axes = axes if draws.chance(0.3) else sorted(axes)
    kept = [axis for axis in axes if not draws.chance(0.2)]
    shape, index = [], []
    for axis in kept:
        size, place = int(target.shape[axis]), ["index", axis]
        way = draws.below(5)
        if way == 0:
            shift = draws.between(1, 2)
            shape.append(size + shift)
            index.append(["+", place, shift])
        elif way == 1 and size > 1:
            shape.append(size)
            index.append(["-", size - 1, place])
        else:
            shape.append(size)
            index.append(place)
    return tuple(shape), ["at", operand, *index]


def grow_inplace(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """The operand is a sum of its own: no two are the same, so that no pass takes two for one."""
    if not target.is_static or not target.rank or target.dtype not in PRIMFUNC_DTYPES:
        return None
    draws = growth.draws
    own: Json = ["at", 0, *(["index", axis] for axis in range(target.rank))]
    shape, other = read_of(growth, target, 1)
    operand_types = [target, Tensor(target.dtype, shape)]
    name = growth.fresh("prim")
    growth.opaque[name] = {
        "compute": {
            "operands": [[each.dtype, list(each.shape)] for each in operand_types],
            "shape": list(target.shape),
            "dtype": target.dtype,
            "value": [draws.pick(["+", "-", "*", "max", "min"]), own, other],
            "inplace": True,
        }
    }
    source, read = growth.grow_all(frame, [Want(each, ANY) for each in operand_types], fuel - 1)
    number = draws.between(1, 2**20) / 2**20 if target.is_float else draws.between(1, 90)
    step = growth.constant(np.array(number, target.dtype))
    written = growth.bind(frame, "relax.add", [{"ref": source.name}, {"ref": step.name}], target)
    frame.known.remove(written)
    inner = Frame(known=[written], outer=frame)
    args = [{"function": name}, {"tuple": [{"ref": written.name}, {"ref": read.name}]}]
    told = {
        "types": [type_to_json(target)],
        "attributes": ["CallTIRInplaceAttrs", {"inplace_indices": [0]}],
    }
    made = growth.bind(inner, "relax.call_tir_inplace", args, target, told)
    frame.bindings += inner.bindings
    frame.known.append(made)
    return made


_MOST_ELEMENTS = 24
_MOST_STEPS = 800
_LOOPS_TRIES = 4


def grow_loops(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Make a PrimFunc of the target's type, then operands for it."""
    if not target.is_static or target.dtype not in DTYPES or not 0 < _count(target) <= _MOST_ELEMENTS:
        return None
    draws = growth.draws
    types = [Tensor(draws.pick([target.dtype, *DTYPES]), _dims(growth)) for _ in range(draws.between(1, 2))]
    for _ in range(_LOOPS_TRIES):
        function = primfunc(draws, types, target)
        if is_sound(function):
            break
    else:
        return None
    name = growth.fresh("prim")
    growth.opaque[name] = PrimFunc(function).told
    operands = growth.grow_all(frame, [Want(each, ANY) for each in types], fuel - 1)
    args = [{"function": name}, {"tuple": [{"ref": each.name} for each in operands]}]
    return growth.bind(frame, "relax.call_tir", args, target, {"types": [type_to_json(target)]})


def is_sound(function: Function) -> bool:
    """Whether a PrimFunc is well-formed and its result is defined for small operands."""
    module = Module({"main": function})
    if not is_taken(function) or not is_well_formed(module):
        return False
    return interpret(
        module, make_inputs(module, 0), trials=0, steps=_MOST_STEPS, fresh=[function.params[-1].name]
    ).is_defined


def _dims(growth: Growth) -> tuple[int, ...]:
    asking = growth.asking(Frame())
    return tuple(max(1, asking.static()) for _ in range(growth.draws.between(1, 2)))


def _count(told: Tensor) -> int:
    return prod(int(dim) for dim in told.shape)


FORMS: dict[str, Form] = {
    "operator": grow_operator,
    "primfunc": grow_primfunc,
    "inplace": grow_inplace,
    "loops": grow_loops,
}
