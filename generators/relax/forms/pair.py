"""A tuple and a projection of it; now and then a tuple in a tuple."""

from __future__ import annotations

from generators.relax.choices import any_tensor
from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Within
from generators.relax.types import Fields, Tensor, Type

NAME = "pair"


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Return the target among other fields."""
    others = [any_tensor(growth.asking(frame)) for _ in range(growth.draws.between(0, 2))]
    at = growth.draws.below(len(others) + 1)
    types: list[Type] = [*others[:at], target, *others[at:]]
    parts = [growth.grow(frame, each, ANY, max(0, fuel - 1) // len(types)) for each in types]
    refs = [{"ref": each.name} for each in parts]
    told: Type = Fields(tuple(types))
    if growth.draws.chance(0.25):
        inner = growth.bind(frame, "alias", [{"tuple": refs}], told)
        outer = Fields((told, target))
        whole = growth.bind(frame, "alias", [{"tuple": [{"ref": inner.name}, refs[at]]}], outer)
        inner = growth.bind(frame, "getitem", [{"ref": whole.name}, 0], told)
        return growth.bind(frame, "getitem", [{"ref": inner.name}, at], target)
    whole = growth.bind(frame, "alias", [{"tuple": refs}], told)
    return growth.bind(frame, "getitem", [{"ref": whole.name}, at], target)
