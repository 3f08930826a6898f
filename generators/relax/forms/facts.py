"""Forms in which a program asks a tensor for its shape and other facts, and computes with these."""

import math

import numpy as np

from generators.relax.leaves import Form, Growth
from generators.relax.making import Frame, Known, attributes
from generators.relax.operator import (
    ANY,
    BOOL,
    Sizes,
    Tensor,
    Within,
    concrete,
    type_to_json,
)

_READ_OFF = 0.5


def grow_shape(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """A reshape, a broadcast, or a filled tensor."""
    shape = _shape(growth, frame, target, fuel)
    ref = shape.ref
    way = growth.draws.below(3)
    if way == 0 and target.rank:
        order = tuple(growth.draws.sample(target.shape, target.rank))
        source = growth.grow(frame, Tensor(target.dtype, order), ANY, fuel // 2)
        return growth.bind(frame, "relax.reshape", [source.ref, ref], target)
    if way == 1 and target.rank:
        narrow = tuple(1 if growth.draws.chance(0.4) else dim for dim in target.shape)
        source = growth.grow(frame, Tensor(target.dtype, narrow), ANY, fuel // 2)
        return growth.bind(frame, "relax.broadcast_to", [source.ref, ref], target)
    told = attributes("InitAttrs", dtype=target.dtype)
    return growth.bind(frame, growth.draws.pick(["relax.zeros", "relax.ones"]), [ref], target, told)


def _shape(growth: Growth, frame: Frame, target: Tensor, fuel: int) -> Known:
    told = Sizes(target.shape)
    if not growth.draws.chance(_READ_OFF):
        return growth.bind(frame, "alias", [{"shape": list(target.shape)}], told)
    likes = [
        each for each in frame.readable() if isinstance(each.type, Tensor) and each.type.shape == target.shape
    ]
    like = growth.draws.pick(likes) if likes else growth.grow(frame, target.of("float32"), ANY, fuel // 3)
    return growth.bind(frame, "relax.shape_of", [like.ref], told)


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
    sizes = growth.put_as(frame, Sizes(target.shape), "relax.tensor_to_shape", [dims.ref])
    inner = Frame(known=[sizes], outer=frame)
    loose = growth.put_as(inner, target, "relax.reshape", [source.ref, sizes.ref])
    frame.bindings += inner.bindings
    return growth.bind_on(loose, frame, "match_cast", [loose.ref, type_to_json(target)], target)


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
        source = growth.bind(frame, "alias", [source.ref], row)
    offset = {"prim": ["int64", first * np.dtype(target.dtype).itemsize]}
    args = [source.ref, {"shape": list(target.shape)}, {"dtype": target.dtype}, offset]
    view = growth.put_as(frame, target, "relax.memory.view", args)
    return growth.bind_on(view, frame, "relax.memory.ensure_zero_offset", [view.ref], target)


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
        args = [source.ref]
        source = growth.bind(frame, "relax.memory.ensure_zero_offset", args, source.type)
    assert isinstance(source.type, Tensor)
    axis = [{"prim": ["int64", draws.below(source.type.rank)]}] if fact.endswith("_i") else []
    numbers = growth.grow(frame, own, Within(0, 100), fuel // 3)
    told = Tensor(own.dtype, ())
    number = growth.put_as(frame, told, f"relax.inspect.tensor_{fact}", [source.ref, *axis])
    made = growth.bind_on(number, frame, "relax.add", [numbers.ref, number.ref], own)
    return made if own == target else astype(growth, frame, made, target)


def astype(growth: Growth, frame: Frame, source: Known, target: Tensor) -> Known:
    """A value in the type of the target."""
    return growth.bind(
        frame, "relax.astype", [source.ref], target, attributes("AstypeAttrs", dtype=target.dtype)
    )


FORMS: dict[str, Form] = {
    "inspected": grow_inspected,
    "numbers": grow_numbers,
    "shape": grow_shape,
    "view": grow_view,
}
