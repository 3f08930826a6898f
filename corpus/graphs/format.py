"""What the formats of graphs have in common: their record, making inputs, limits."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from corpus.errors import UserError
from corpus.format import Format, only_computes, read_document
from corpus.graphs.program import (
    CALL,
    GRAPH,
    REF,
    Binding,
    Graph,
    GraphProgram,
    Input,
    Json,
    dtype_of,
    measure,
    parse_program,
    tag_of,
)
from corpus.tir.script import function_lines
from corpus.values import NO_DIMS, InputType, Shape, Tensor, Value, computed_dim


def renamed_graph(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph under other names, wherever they stand."""

    def rename(item: Json) -> Json:
        for tag in (REF, CALL):
            if tag_of(item) == tag:
                return {tag: names.get(item[tag], item[tag])}
        return item

    def binding(old: Binding) -> Binding:
        inside = old.with_bodies(lambda body: renamed_graph(body, names))
        return replace(inside.mapped(rename), name=names.get(old.name, old.name))

    return replace(
        graph,
        inputs=tuple(replace(item, name=names.get(item.name, item.name)) for item in graph.inputs),
        bindings=tuple(map(binding, graph.bindings)),
        outputs=tuple(names.get(name, name) for name in graph.outputs),
    )


def renamed(program: GraphProgram, names: Mapping[str, str]) -> GraphProgram:
    """The program under other names, wherever they stand."""

    def table(old: Mapping[str, Any]) -> dict[str, Any]:
        return {names.get(name, name): value for name, value in old.items()}

    functions = {names.get(name, name): renamed_graph(old, names) for name, old in program.functions.items()}
    return replace(
        program,
        main=renamed_graph(program.main, names),
        constants=table(program.constants),
        functions=functions,
        opaque=table(program.opaque),
        loops=table(program.loops),
    )


def plain_names(program: GraphProgram) -> dict[str, str]:
    """Map old names to plain ones: inputs x0…, constants w0…, functions f0…, results y0… or t0… in order."""
    counts: dict[str, int] = {}
    names: dict[str, str] = {}

    def give(name: str, letter: str) -> None:
        if name not in names:
            counts[letter] = counts.get(letter, -1) + 1
            names[name] = f"{letter}{counts[letter]}"

    def visit(graph: Graph, letter: str, top: bool) -> None:
        for item in graph.inputs:
            give(item.name, letter)
        for binding in graph.bindings:
            for body in binding.bodies:
                visit(body, "b", False)
            give(binding.name, "y" if top and binding.name in graph.outputs else "t")

    for name in program.constants:
        give(name, "w")
    for name in (*program.functions, *program.opaque, *program.loops):
        give(name, "f")
    visit(program.main, "x", True)
    for graph in program.functions.values():
        visit(graph, "p", False)
    return names


def canonical(program: GraphProgram) -> bytes:
    """The program under plain names."""
    return renamed(program, plain_names(program)).to_bytes()


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
    """An argument as a person reads it."""
    if isinstance(item, list):
        return f"[{', '.join(map(argument_text, item))}]"
    tag = tag_of(item)
    if tag in (REF, CALL):
        return str(item[tag])
    if tag == "tuple" and isinstance(item[tag], list):
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


SIZES = (2, 3, 4, 5)


def graph_format(
    name: str,
    target: str,
    *,
    foreign: tuple[str, ...],
    is_foreign: Callable[[Path], bool],
    runs_code: bool = True,
    calls_outside: Callable[[bytes], str] = only_computes,
    unit: str = "nodes",
) -> Format[GraphProgram]:
    """A format of graphs of bindings; which files of others it opens, and what else is its own."""
    return Format(
        name=name,
        program_file=f"program.{name}.json",
        suffixes=(f".{name}.json",),
        foreign=foreign,
        target=target,
        unit=unit,
        read_program=partial(read_document, name),
        parse=GraphParser(name),
        check=check,
        input_types=input_types,
        make_inputs=make_inputs,
        canonical=canonical,
        measure=measure,
        print_text=print_text,
        is_foreign=is_foreign,
        runs_code=runs_code,
        calls_outside=calls_outside,
        from_worker=partial(_from_worker, name),
    )


def _from_worker(name: str, answer: dict[str, Any], where: str) -> bytes:
    """The bytes of a program, whatever the worker's dictionary looks like."""
    document = {
        "format": name,
        "version": 1,
        "main": answer["main"],
        "constants": answer["constants"],
        "functions": answer.get("functions", {}),
        "opaque": answer.get("opaque", {}),
        "facts": answer.get("facts", {}),
    }
    return parse_program(json.dumps(document).encode(), name, where).to_bytes()


@dataclass(frozen=True)
class GraphParser:
    """Reads the programs of one format of graphs."""

    name: str

    def __call__(self, program: bytes, where: str = "program") -> GraphProgram:
        """The program; UserError when it is none."""
        return parse_program(program, self.name, where)


def check(program: GraphProgram, where: str, memory_bytes: int) -> None:
    """UserError where an input's static dims alone exceed the memory, or its dtype is not known."""
    for item in program.main.inputs:
        dtype = _dtype(item, where)
        static = [dim for dim in item.shape if isinstance(dim, int)]
        size = math.prod(static) * dtype.itemsize
        if size > memory_bytes or any(dim < 0 for dim in static):
            raise UserError(
                f"{where}: input {item.name!r} takes {size} bytes, over the memory limit of {memory_bytes};"
                " make it smaller or raise --memory"
            )


def input_types(program: GraphProgram, where: str) -> dict[str, InputType]:
    """Map each input of the program to its type, in order; a computed dim can have any size."""
    return {item.name: InputType(_dtype(item, where), item.shape) for item in program.main.inputs}


def _dtype(item: Input, where: str) -> np.dtype[Any]:
    dtype = dtype_of(item.dtype)
    if dtype is None:
        raise UserError(f"{where}: input {item.name!r} is of dtype {item.dtype!r:.40}, which is not known")
    return dtype


def make_inputs(program: GraphProgram, seed: int, dims: Mapping[str, int] = NO_DIMS) -> dict[str, Value]:
    """Small values; a symbolic dim has one size everywhere, in `dims` that which is asked for."""
    passed = {item.name: passed_dims(item) for item in program.main.inputs}
    names = symbols([*(item.shape for item in program.main.inputs), *passed.values()])
    sizes = {name: SIZES[(seed + place) % len(SIZES)] for place, name in enumerate(names)}
    sizes |= dims
    made: dict[str, Value] = {}
    for place, item in enumerate(program.main.inputs):
        rng = np.random.default_rng([seed % (1 << 63), place])
        if passed[item.name]:
            made[item.name] = np.array(concrete(passed[item.name], sizes), item.dtype)
        else:
            made[item.name] = _drawn(item.dtype, concrete(item.shape, sizes), rng)
    return made


def passed_dims(item: Input) -> Shape:
    """The dims that an input's own values are, where it is declared to be a shape of such."""
    dims = item.declared["shape_type"][0] if tag_of(item.declared) == "shape_type" else None
    return tuple(dims or ())


def _drawn(dtype_name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    dtype = dtype_of(dtype_name) or np.dtype(np.float32)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0, 4, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def symbols(shapes: object) -> tuple[str, ...]:
    """The names in dims, in order of first use."""
    texts = [dim for shape in shapes for dim in shape if isinstance(dim, str)]  # type: ignore[attr-defined]
    return tuple(dict.fromkeys(name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)))


def concrete(shape: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape's sizes where its names have these; UserError for a dim that is no arithmetic."""
    return tuple(evaluate(dim, sizes) if isinstance(dim, str) else int(dim or 0) for dim in shape)


def evaluate(text: str, sizes: Mapping[str, int]) -> int:
    """A dim such as `n * 2 + 1`."""
    try:
        return computed_dim(text, sizes.__getitem__)
    except ValueError:
        raise UserError(f"dim {text[:60]!r}: cannot be computed; give --inputs") from None
