"""Runs of bindings as dataflow blocks; an If, a local function or an impure call ends a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from corpus.graphs.program import GraphProgram
from generators.language.counts import Counts
from generators.language.random_source import RandomSource
from generators.relax.types import Json, Tensor, Type

APART = "apart"
"""What a binding is told that is to be in no block: a pass may look for it there."""
TOGETHER = "together"
"""What bindings are told, with one name for all, that stand in one block or in none: those of a pattern."""
_OUTSIDE = frozenset({"if", "function", "relax.shape_of"})
"""What no dataflow block holds; a shape that types depend on may be no dataflow variable."""


def in_blocks(draws: RandomSource, share: float) -> Callable[[Json], Json]:
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
    """Whether no dataflow block may hold such a binding."""
    return op in _OUTSIDE or _is_shape(op, args)


def _is_shape(op: str, args: list[Json]) -> bool:
    return op == "alias" and isinstance(args[0], dict) and "shape" in args[0]


def count_program(program: GraphProgram, types: Mapping[str, Type]) -> Counts:
    """The counts of one program, given the types of its names; constants are operands without a maker."""
    bindings = [each for graph in (program.main, *program.functions.values()) for each in graph.walk()]
    known = {**types, **{name: Tensor(v.dtype.name, v.shape) for name, v in program.constants.items()}}
    makers = {each.name: each.op for each in bindings}
    op_dtype: set[tuple[object, ...]] = set()
    op_shape: set[tuple[object, ...]] = set()
    op_edge: set[tuple[str, str]] = set()
    for each in bindings:
        operands = [known[name] for name in each.reads if name in known]
        tensors = [told for told in operands if isinstance(told, Tensor)]
        result = known.get(each.name)
        made = result.dtype if isinstance(result, Tensor) else type(result).__name__
        op_dtype.add((each.op, tuple(told.dtype for told in tensors), made))
        op_shape.add((each.op, tuple(told.shape for told in tensors)))
        op_edge.update((makers[name], each.op) for name in each.reads if name in makers)
    names = frozenset(each.op for each in bindings)
    return Counts(1, names, frozenset(op_dtype), frozenset(op_shape), frozenset(op_edge))
