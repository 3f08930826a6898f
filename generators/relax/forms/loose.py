"""A name whose annotation says less than is known, and a cast that says it again."""

from __future__ import annotations

from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import Within
from generators.relax.types import Json, Tensor, type_to_json

NAME = "loose"


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """The dims, the rank, the dtype too, or all of it is left open for a while."""
    found = growth.grow(frame, target, within, fuel - 1)
    forms: list[Json] = [
        {"tensor": [target.dtype, None, target.rank]},
        {"tensor": [target.dtype, None, -1]},
        {"tensor": [None, None, -1]},
        {"any": True},
    ]
    name = growth.fresh()
    growth.place(name, "alias", [{"ref": found.name}])
    frame.bindings.append([name, "alias", [{"ref": found.name}], {"type": growth.draws.pick(forms)}])
    told = type_to_json(target)
    loose = Known(name, target, found.value)
    with_loose = Frame(known=[loose], outer=frame)
    made = growth.bind(with_loose, "match_cast", [{"ref": name}, told], target)
    frame.bindings += with_loose.bindings
    frame.known.append(made)
    return made
