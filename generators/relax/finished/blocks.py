"""Runs of bindings as dataflow blocks; an If, a local function or an impure call ends a run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from generators.language.draws import Draws
from generators.relax.types import Json

APART = "apart"
"""What a binding is told that is to be in no block: a pass may look for it there."""
TOGETHER = "together"
"""What bindings are told, with one name for all, that stand in one block or in none: those of a pattern."""
_OUTSIDE = frozenset({"if", "function", "relax.shape_of"})
"""What no dataflow block holds; a shape that types depend on may be no dataflow variable."""


def in_blocks(draws: Draws, share: float) -> Callable[[Json], Json]:
    """Marks the runs of a graph's bindings, and of those in its bodies, so that this share is dataflow."""
    numbers = count(1)

    def marked(graph: Json) -> Json:
        bindings, block, last = [], None, None
        for name, op, args, kwargs in graph["bindings"]:
            if belongs_outside(op, args) or kwargs.get(APART):
                block = None
            elif (run := kwargs.get(TOGETHER)) is not None and run == last:
                pass
            elif block is None or draws.chance(0.1):
                block = next(numbers) if draws.chance(share) else None
            last = kwargs.get(TOGETHER)
            kept = {key: item for key, item in kwargs.items() if key not in (APART, TOGETHER)}
            told = kept if block is None else {**kept, "block": block}
            bindings.append([name, op, [_inside(each) for each in args], told])
        return {**graph, "bindings": bindings}

    def _inside(item: Json) -> Json:
        if isinstance(item, dict) and set(item) == {"graph"}:
            return {"graph": marked(item["graph"])}
        return item

    return marked


def belongs_outside(op: str, args: list[Json]) -> bool:
    """Return whether no dataflow block may hold such a binding."""
    return op in _OUTSIDE or _is_shape(op, args)


def _is_shape(op: str, args: list[Json]) -> bool:
    return op == "alias" and isinstance(args[0], dict) and "shape" in args[0]
