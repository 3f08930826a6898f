"""A `call_tir` of a PrimFunc that is made on the spot: a formula over the target's places."""

from __future__ import annotations

from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Want, Within
from generators.relax.types import Dim, Json, Tensor, type_to_json

NAME = "primfunc"
DTYPES = ("float32", "float64", "int32", "int64")


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Operands of the target's dtype, read at places that the result's own give, and a formula of them."""
    if not target.is_static or target.dtype not in DTYPES:
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
    """Return an operand's shape and the element that is read: axes in another order, shifted or left out."""
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
