"""Programs made plain for one run: symbolic dims as the sizes they have, calls as the bodies called."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from corpus.graphs.format import evaluate, passed_dims, symbols
from corpus.graphs.program import (
    CALL,
    GRAPH,
    REF,
    Binding,
    Graph,
    GraphProgram,
    Input,
    Json,
    graph_of_json,
    graph_to_json,
    tag_of,
)
from corpus.values import Value


def with_static_dims(program: GraphProgram, arrays: Mapping[str, Value]) -> GraphProgram:
    """The program whose symbolic dims are the sizes that they have with these inputs; itself without any."""
    main = program.main
    sizes = _sizes(main, arrays)
    if not sizes:
        return program
    inputs = tuple(_sized(item, arrays.get(item.name), sizes) for item in main.inputs)
    bindings = tuple(_rewritten(binding, {}, sizes) for binding in main.bindings)
    return replace(program, main=replace(main, inputs=inputs, bindings=bindings))


def with_calls_written_out(program: GraphProgram, values: Mapping[str, Value]) -> GraphProgram:
    """The program with a function's bindings in place of each call in main, of the sizes of its operands.

    `values` are those of main's names; what else a function calls stays a call. Bindings stand in no block of
    their own any more. Itself if main calls no function of bindings, or one with an operand that has no name.
    """
    bindings: list[Binding] = []
    for binding in program.main.bindings:
        graph = program.functions.get(_called(binding))
        if graph is None:
            bindings.append(_outside_blocks(binding))
            continue
        operands = [str(item[REF]) for item in binding.args[1:] if tag_of(item) == REF]
        if not len(operands) == len(binding.args) - 1 == len(graph.inputs):
            return program
        bindings += _body(binding.name, graph, operands, values)
    if len(bindings) == len(program.main.bindings):
        return program
    return replace(program, main=replace(program.main, bindings=tuple(bindings)))


def _called(binding: Binding) -> str:
    """The function of the program that a binding does nothing but call; empty for any other."""
    return str(binding.args[0][CALL]) if binding.op == "call" and tag_of(binding.args[0]) == CALL else ""


def _body(name: str, graph: Graph, operands: Sequence[str], values: Mapping[str, Value]) -> Iterator[Binding]:
    """A function's bindings under names of their own, and the result under the call's name."""
    taken = {item.name: operand for item, operand in zip(graph.inputs, operands, strict=True)}
    sizes = _sizes(graph, {parameter: values.get(operand) for parameter, operand in taken.items()})
    inside = {item.name for each in graph.walk() for body in each.bodies for item in body.inputs}
    inside |= {each.name for each in graph.walk()}
    names = {**taken, **{each: f"{name}__{each}" for each in inside}}
    for each in graph.bindings:
        yield _outside_blocks(_rewritten(each, names, sizes))
    results = [{REF: names.get(each, each)} for each in graph.outputs]
    is_tuple = len(results) > 1 or graph.facts.get("tuple")
    yield Binding(name, "alias", ({"tuple": results},) if is_tuple else tuple(results))


def _outside_blocks(binding: Binding) -> Binding:
    kwargs = {key: item for key, item in binding.kwargs.items() if key != "block"}
    return replace(binding, kwargs=kwargs).mapped(_body_outside_blocks)


def _body_outside_blocks(item: Json) -> Json:
    if tag_of(item) != GRAPH:
        return item
    graph = graph_of_json(item[GRAPH])
    return {GRAPH: graph_to_json(replace(graph, bindings=tuple(map(_outside_blocks, graph.bindings))))}


def _rewritten(binding: Binding, names: Mapping[str, str], sizes: dict[str, int]) -> Binding:
    """The binding with other names and with sizes for dims, its bodies included."""
    changed = binding.mapped(partial(_changed, names, sizes))
    return replace(changed, name=names.get(binding.name, binding.name))


def _changed(names: Mapping[str, str], sizes: dict[str, int], item: Json) -> Json:
    if tag_of(item) == REF:
        return {REF: names.get(item[REF], item[REF])}
    if tag_of(item) != GRAPH:
        return _with_sizes(sizes, item)
    graph = graph_of_json(item[GRAPH])
    inputs = tuple(
        replace(each, name=names.get(each.name, each.name), shape=tuple(_sized_dim(sizes, [*each.shape])))
        for each in graph.inputs
    )
    bindings = tuple(_rewritten(each, names, sizes) for each in graph.bindings)
    outputs = tuple(names.get(each, each) for each in graph.outputs)
    return {GRAPH: graph_to_json(replace(graph, inputs=inputs, bindings=bindings, outputs=outputs))}


def _sizes(main: Graph, arrays: Mapping[str, Value]) -> dict[str, int]:
    """Map the symbols that are dims of inputs, or passed as inputs, to their values."""
    found: dict[str, int] = {}
    for item in main.inputs:
        array = arrays.get(item.name)
        if not isinstance(array, np.ndarray):
            continue
        told = [
            *zip(item.shape, array.shape, strict=False),
            *zip(passed_dims(item), array.flat, strict=False),
        ]
        for dim, size in told:
            if isinstance(dim, str):
                found.setdefault(dim, int(size))
    return found


def _sized(item: Input, array: Value, sizes: dict[str, int]) -> Input:
    declared = _with_sizes(sizes, item.declared)
    shape = array.shape if isinstance(array, np.ndarray) else item.shape
    return replace(item, shape=shape, declared=declared)


def _with_sizes(sizes: dict[str, int], item: Json) -> Json:
    """A list of dims in a shape or a type, computed."""
    if tag_of(item) not in ("shape", "tensor", "shape_type"):
        return item
    return {tag_of(item): _sized_dim(sizes, item[tag_of(item)])}


def _sized_dim(sizes: dict[str, int], item: Json) -> Json:
    if isinstance(item, list):
        return [_sized_dim(sizes, each) for each in item]
    is_dim = isinstance(item, str) and symbols([(item,)]) and set(symbols([(item,)])) <= sizes.keys()
    return evaluate(item, sizes) if is_dim else item
