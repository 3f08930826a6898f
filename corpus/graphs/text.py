"""A graph program for a person to read."""

from __future__ import annotations

import json
from collections.abc import Iterator

from corpus.graphs.program import CALL, GRAPH, REF, Graph, GraphProgram, Json, tag_of
from corpus.tir.script import function_lines
from corpus.values import Shape, Tensor


def print_text(program: GraphProgram) -> str:
    """One line for each input, constant, binding and output."""
    lines = [f"input {item.name}: {type_text(item.dtype, item.shape)}" for item in program.main.inputs]
    lines += [
        f"constant {name}: {type_text(value.dtype.name, value.shape)} = {_values_text(value)}"
        for name, value in program.constants.items()
    ]
    for name, graph in program.functions.items():
        lines.append(f"function {name}({', '.join(item.name for item in graph.inputs)})")
        lines += [f"    {line}" for line in _graph_lines(graph)]
    lines += [f"function {name} (not a graph)" for name in program.opaque]
    for name, primfunc in program.loops.items():
        lines += function_lines(name, primfunc.function)
    return "\n".join([*lines, *_graph_lines(program.main)])


def type_text(dtype: str, shape: Shape) -> str:
    """Write a tensor type, such as `float32[2,n]`."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def argument_text(item: Json) -> str:
    """Return an argument as a person reads it."""
    if isinstance(item, list):
        return f"[{', '.join(map(argument_text, item))}]"
    tag = tag_of(item)
    if tag in (REF, CALL):
        return str(item[tag])
    if tag == "tuple":
        return f"({', '.join(map(argument_text, item[tag]))})"
    if tag == GRAPH:
        return "{…}"
    if tag and isinstance(item[tag], str | int | float):
        return str(item[tag])
    return json.dumps(item) if isinstance(item, dict) else repr(item)


def _graph_lines(graph: Graph) -> Iterator[str]:
    for binding in graph.bindings:
        words = [argument_text(item) for item in binding.args]
        words += [f"{key}={argument_text(item)}" for key, item in binding.kwargs.items() if item != {}]
        yield f"{binding.name} = {binding.op}({', '.join(words)})"
        for body in binding.bodies:
            yield from (f"    {line}" for line in _graph_lines(body))
            yield "    --"
    yield f"output {', '.join(graph.outputs)}"


def _values_text(value: Tensor) -> str:
    if value.size > 8:
        return f"{value.size} values"
    return str(value.tolist())
