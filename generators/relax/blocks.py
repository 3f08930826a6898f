"""Runs of bindings as dataflow blocks; an If, a local function or an impure call ends a run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from generators.language.draws import Draws
from generators.relax.types import Json

_OUTSIDE = frozenset({"if", "function", "relax.shape_of"})
"""What no dataflow block holds; a shape that types hang on may be no dataflow variable."""


def in_blocks(draws: Draws, share: float) -> Callable[[Json], Json]:
    """Marks the runs of a graph's bindings, and of those in its bodies, so that this share is dataflow."""
    numbers = count(1)

    def marked(graph: Json) -> Json:
        bindings, block = [], None
        for name, op, args, kwargs in graph["bindings"]:
            if op in _OUTSIDE or _is_shape(op, args):
                block = None
            elif block is None or draws.chance(0.1):
                block = next(numbers) if draws.chance(share) else None
            told = kwargs if block is None else {**kwargs, "block": block}
            bindings.append([name, op, [_inside(each) for each in args], told])
        return {**graph, "bindings": bindings}

    def _inside(item: Json) -> Json:
        if isinstance(item, dict) and set(item) == {"graph"}:
            return {"graph": marked(item["graph"])}
        return item

    return marked


def _is_shape(op: str, args: list[Json]) -> bool:
    return op == "alias" and isinstance(args[0], dict) and "shape" in args[0]
