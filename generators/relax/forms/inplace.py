"""A `call_tir_inplace`: a PrimFunc that writes over what it is given, which nobody else reads."""

from __future__ import annotations

import numpy as np

from generators.relax.forms.primfunc import DTYPES, read_of
from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Want, Within
from generators.relax.types import Json, Tensor, type_to_json

NAME = "inplace"


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """The operand is a sum of its own: no two are the same, so that no pass takes two for one."""
    if not target.is_static or not target.rank or target.dtype not in DTYPES:
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
