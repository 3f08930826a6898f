"""How diverse Relax programs are: operators, with their types, shapes and neighbours."""

from __future__ import annotations

from collections.abc import Mapping

from corpus.graphs.program import GraphProgram
from generators.language.counts import Counts
from generators.relax.types import Tensor, Type


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
