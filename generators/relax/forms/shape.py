"""A shape as a value, written out or read off a tensor, and what is made to have it.

A rare form: TVM 0.27 lowers no operator that takes its shape by a name.
"""

from __future__ import annotations

from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Within
from generators.relax.types import Sizes, Tensor

NAME = "shape"
_READ_OFF = 0.5


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Return a reshape, a broadcast, or a filled tensor."""
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
