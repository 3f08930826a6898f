"""Programs made plain for one run: symbolic dims as the sizes they have, calls as the bodies called."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from corpus.graphs.format import evaluate, passed_dims, renamed_graph, symbols
from corpus.graphs.program import CALL, REF, Binding, Graph, GraphProgram, Input, Json, tag_of
from corpus.values import Value


def with_static_dims(program: GraphProgram, arrays: Mapping[str, Value]) -> GraphProgram:
    """The program whose symbolic dims are the sizes that they have with these inputs; itself without any."""
    main = program.main
    sizes = _sizes(main, arrays)
    if not sizes:
        return program
    inputs = tuple(_sized(item, arrays.get(item.name), sizes) for item in main.inputs)
    bindings = tuple(_sized_binding(sizes, binding) for binding in main.bindings)
    return replace(program, main=replace(main, inputs=inputs, bindings=bindings))


def with_calls_written_out(program: GraphProgram, values: Mapping[str, Value]) -> GraphProgram:
    """The program with a function's bindings in place of each call in main, of the sizes of its operands.

    `values` are those of main's names; what else a function calls stays a call. Bindings stand in no block of
    their own any more. Itself if main calls no function of bindings, or one with an operand that has no name.
    """
    bindings: list[Binding] = []
    for binding in program.main.bindings:
        graph = program.functions.get(callee(binding))
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


def callee(binding: Binding) -> str:
    """The function of the program that a binding does nothing but call; empty for any other."""
    is_call = binding.op == "call" and binding.args and tag_of(binding.args[0]) == CALL
    return str(binding.args[0][CALL]) if is_call else ""


def _body(name: str, graph: Graph, operands: Sequence[str], values: Mapping[str, Value]) -> Iterator[Binding]:
    """A function's bindings under names of their own, and the result under the call's name."""
    taken = {item.name: operand for item, operand in zip(graph.inputs, operands, strict=True)}
    sizes = _sizes(graph, {parameter: values.get(operand) for parameter, operand in taken.items()})
    own = {each: f"{name}__{each}" for each in GraphProgram("", graph).names}
    plain = renamed_graph(graph, {**own, **taken})
    for each in plain.bindings:
        yield _outside_blocks(_sized_binding(sizes, each))
    results = [{REF: each} for each in plain.outputs]
    is_tuple = len(results) > 1 or graph.facts.get("tuple")
    yield Binding(name, "alias", ({"tuple": results},) if is_tuple else tuple(results))


def _outside_blocks(binding: Binding) -> Binding:
    kwargs = {key: item for key, item in binding.kwargs.items() if key != "block"}
    return replace(binding, kwargs=kwargs).with_bodies(_graph_outside_blocks)


def _graph_outside_blocks(graph: Graph) -> Graph:
    return replace(graph, bindings=tuple(map(_outside_blocks, graph.bindings)))


def _sized_binding(sizes: dict[str, int], binding: Binding) -> Binding:
    """The binding with sizes for dims, its bodies included."""
    return binding.with_bodies(partial(_sized_graph, sizes)).mapped(partial(_with_sizes, sizes))


def _sized_graph(sizes: dict[str, int], graph: Graph) -> Graph:
    inputs = tuple(replace(each, shape=tuple(_sized_dim(sizes, [*each.shape]))) for each in graph.inputs)
    return replace(
        graph, inputs=inputs, bindings=tuple(_sized_binding(sizes, each) for each in graph.bindings)
    )


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
