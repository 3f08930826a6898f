"""Forms in which a program asks a tensor for its shape and other facts, and computes with these."""

import math
from dataclasses import replace

import numpy as np

from generators.relax.leaves import Form, Growth
from generators.relax.making import Frame, Known
from generators.relax.operator import ANY, BOOL, Sizes, Tensor, Within, concrete, type_to_json

_READ_OFF = 0.5


def grow_shape(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """A reshape, a broadcast, or a filled tensor."""
    shape = _shape(growth, frame, target, fuel)
    ref = {"ref": shape.name}
    way = growth.draws.below(3)
    if way == 0 and target.rank:
        order = tuple(growth.draws.sample(target.shape, target.rank))
        source = growth.grow(frame, Tensor(target.dtype, order), ANY, fuel // 2)
        return growth.bind(frame, "relax.reshape", [{"ref": source.name}, ref], target)
    if way == 1 and target.rank:
        narrow = tuple(1 if growth.draws.chance(0.4) else dim for dim in target.shape)
        source = growth.grow(frame, Tensor(target.dtype, narrow), ANY, fuel // 2)
        return growth.bind(frame, "relax.broadcast_to", [{"ref": source.name}, ref], target)
    told = {"attributes": ["InitAttrs", {"dtype": target.dtype}]}
    return growth.bind(frame, growth.draws.pick(["relax.zeros", "relax.ones"]), [ref], target, told)


def _shape(growth: Growth, frame: Frame, target: Tensor, fuel: int) -> Known:
    told = Sizes(target.shape)
    if not growth.draws.chance(_READ_OFF):
        return growth.bind(frame, "alias", [{"shape": list(target.shape)}], told)
    likes = [
        each for each in frame.readable() if isinstance(each.type, Tensor) and each.type.shape == target.shape
    ]
    like = growth.draws.pick(likes) if likes else growth.grow(frame, target.of("float32"), ANY, fuel // 3)
    return growth.bind(frame, "relax.shape_of", [{"ref": like.name}], told)


def grow_numbers(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Reshape to a shape whose dims are the elements of a tensor: only a cast says what comes of it."""
    if not target.rank:
        return None
    dims = growth.bind(
        frame, "relax.shape_to_tensor", [{"shape": list(target.shape)}], Tensor("int64", (target.rank,))
    )
    if target.is_static and growth.draws.chance(0.5):
        dims = growth.constant(np.array(target.shape, "int64"))
    order = tuple(growth.draws.sample(target.shape, target.rank))
    source = growth.grow(frame, Tensor(target.dtype, order), ANY, fuel // 2)
    sizes = Known(growth.fresh(), Sizes(target.shape), None)
    value = growth.put(frame, sizes.name, "relax.tensor_to_shape", [{"ref": dims.name}])
    inner = Frame(known=[replace(sizes, value=value)], outer=frame)
    loose = Known(growth.fresh(), target, None)
    args = [{"ref": source.name}, {"ref": sizes.name}]
    value = growth.put(inner, loose.name, "relax.reshape", args)
    frame.bindings += inner.bindings
    args = [{"ref": loose.name}, type_to_json(target)]
    return growth.bind_on(replace(loose, value=value), frame, "match_cast", args, target)


_OFFSETS = (0, 0, 1, 4, 16)


def grow_view(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """A part of a row, from a place on; what begins within another tensor is read after a copy alone."""
    if not target.is_static or target.dtype == BOOL:
        return None
    first = growth.draws.pick(_OFFSETS)
    count = math.prod(concrete(target.shape, {}))
    row = Tensor(target.dtype, (first + count + growth.draws.below(3),))
    source = growth.grow(frame, row, ANY, fuel // 2)
    if source.name in growth.constants:
        source = growth.bind(frame, "alias", [{"ref": source.name}], row)
    offset = {"prim": ["int64", first * np.dtype(target.dtype).itemsize]}
    args = [{"ref": source.name}, {"shape": list(target.shape)}, {"dtype": target.dtype}, offset]
    view = Known(growth.fresh(), target, None)
    value = growth.put(frame, view.name, "relax.memory.view", args)
    own = [{"ref": view.name}]
    return growth.bind_on(replace(view, value=value), frame, "relax.memory.ensure_zero_offset", own, target)


_INSPECTED = {
    "byte_offset": ("uint64", 0.03),
    "dtype_bits": ("uint8", 1.0),
    "dtype_code": ("uint8", 1.0),
    "dtype_lanes": ("uint16", 1.0),
    "elem_offset": ("uint64", 0.03),
    "ndim": ("int32", 1.0),
    "shape_i": ("int64", 2.0),
    "stride_i": ("int64", 2.0),
}
"""By fact about a tensor that a program may ask for: the dtype of the number that says it, and how often.

TVM 0.27 lowers an offset to a number of another dtype than it has inferred.
"""


def grow_inspected(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Add a fact about a tensor to numbers of its dtype, which become those of the target."""
    draws = growth.draws
    if target.dtype == BOOL:
        return None
    fact = draws.weighted(tuple(_INSPECTED), tuple(often for _, often in _INSPECTED.values()))
    own = target.of(_INSPECTED[fact][0])
    asking = growth.asking(frame)
    dtype = asking.integer() if fact == "dtype_bits" else draws.pick([asking.float(), asking.integer(), BOOL])
    source = growth.grow(frame, Tensor(dtype, asking.shape(1, 3)), ANY, fuel // 2)
    if fact.endswith("offset"):  # a view has one
        args = [{"ref": source.name}]
        source = growth.bind(frame, "relax.memory.ensure_zero_offset", args, source.type)
    assert isinstance(source.type, Tensor)
    axis = [{"prim": ["int64", draws.below(source.type.rank)]}] if fact.endswith("_i") else []
    numbers = growth.grow(frame, own, Within(0, 100), fuel // 3)
    name = growth.fresh()
    value = growth.put(frame, name, f"relax.inspect.tensor_{fact}", [{"ref": source.name}, *axis])
    number = Known(name, Tensor(own.dtype, ()), value)
    made = growth.bind_on(number, frame, "relax.add", [{"ref": numbers.name}, {"ref": name}], own)
    if own == target:
        return made
    told = {"attributes": ["AstypeAttrs", {"dtype": target.dtype}]}
    return growth.bind(frame, "relax.astype", [{"ref": made.name}], target, told)


FORMS: dict[str, Form] = {
    "inspected": grow_inspected,
    "numbers": grow_numbers,
    "shape": grow_shape,
    "view": grow_view,
}
