"""A `call_tir` of a PrimFunc of loops, branches and memory, out of what the strategy `tir` draws."""

from __future__ import annotations

from math import prod

from corpus.graphs.loops import PrimFunc
from corpus.tir.program import make_inputs
from corpus.tir.scopes import is_well_formed
from corpus.tir.tree import Function, Module
from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Want, Within
from generators.relax.stages import DTYPES, is_taken, primfunc
from generators.relax.types import Tensor, type_to_json
from oracles.tir.interpreter import interpret

NAME = "loops"
_MOST_ELEMENTS = 24
_MOST_STEPS = 800
_TRIES = 4


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Make a PrimFunc of the target's type, then operands for it."""
    if not target.is_static or target.dtype not in DTYPES or not 0 < _count(target) <= _MOST_ELEMENTS:
        return None
    draws = growth.draws
    types = [Tensor(draws.pick([target.dtype, *DTYPES]), _dims(growth)) for _ in range(draws.between(1, 2))]
    for _ in range(_TRIES):
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
    """Return whether a PrimFunc is well-formed and its result is defined for small operands."""
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
