"""Rewrites that leave every result bit for bit as it is, of ONNX models and of Relax programs.

Those of Relax (HirFuzz §3.3, on functions) move a run of main's bindings into a function of the module, into
a closure, or into a closure that a function of the module returns. Only tensors of known sizes cross the
border.

These programs call thousands of functions and methods, so there is no row for each: `torch.Tensor.sum` and
`relax.sum` are known by the word `sum`.

A float that becomes an integer which cannot hold it: C++, and so torch and TVM, give no rule for that, and
processors wrap, saturate or give their least integer. Memory that nobody has written to.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from corpus.graphs.format import renamed
from corpus.graphs.program import GRAPH, REF, Binding, Graph, GraphProgram, Input, graph_to_json, tag_of
from corpus.onnx.graph import initializer_names
from corpus.onnx.types import element_type
from corpus.values import Value
from oracles.numerics.input_noise import static_dims, tensor_types
from oracles.operators import find_operator
from oracles.relation.open_checks import is_beyond

Inputs = Mapping[str, Value]
Rewrite = Callable[[ModelProto, Inputs], tuple[ModelProto, Inputs] | None]

MOST_FOLDED = 1 << 20
"""Bytes of inputs that become constants."""

_PREFIX = "crux_way_"


def insert_transposes(model: ModelProto, inputs: Inputs) -> tuple[ModelProto, Inputs] | None:
    """Return two Transposes that undo one another, after every node that makes a matrix or more."""
    types, movable = tensor_types(model, inputs), find_operator("Transpose").dtypes
    changed = deepcopy(model)
    after: list[NodeProto] = []
    for node in changed.graph.node:
        after.append(node)
        for index, name in enumerate(node.output):
            dims = static_dims(types[name]) if name in types and types[name].elem_type in movable else None
            if dims is not None and len(dims) > 1:
                source, turned = f"{_PREFIX}{name}_0", f"{_PREFIX}{name}_1"
                node.output[index] = source
                after.append(helper.make_node("Transpose", [source], [turned]))
                after.append(helper.make_node("Transpose", [turned], [name]))
    if len(after) == len(model.graph.node):
        return None
    nodes = deepcopy(after)
    del changed.graph.node[:]
    changed.graph.node.extend(nodes)
    return changed, inputs


def feed_weights(model: ModelProto, inputs: Inputs) -> tuple[ModelProto, Inputs] | None:
    """Weights as inputs, so that nothing can be folded."""
    changed = deepcopy(model)
    declared = {value.name for value in changed.graph.input}
    weights = [tensor for tensor in changed.graph.initializer if tensor.name not in declared]
    if not weights:
        return None
    fed = {tensor.name: numpy_helper.to_array(tensor) for tensor in weights}
    for tensor in weights:
        changed.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tuple(tensor.dims))
        )
    kept = [tensor for tensor in changed.graph.initializer if tensor.name not in fed]
    del changed.graph.initializer[:]
    changed.graph.initializer.extend(kept)
    return changed, {**inputs, **fed}


def fold_inputs(model: ModelProto, inputs: Inputs) -> tuple[ModelProto, Inputs] | None:
    """Inputs as weights, so that everything can be folded."""
    arrays = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
    if not arrays or sum(value.nbytes for value in arrays.values()) > MOST_FOLDED:
        return None
    changed = deepcopy(model)
    replaced = arrays.keys() - initializer_names(changed.graph)
    kept = [value for value in changed.graph.input if value.name not in replaced]
    del changed.graph.input[:]
    changed.graph.input.extend(kept)
    changed.graph.initializer.extend(_tensor(name, arrays[name]) for name in sorted(replaced))
    return changed, {name: value for name, value in inputs.items() if name not in replaced}


REWRITES: dict[str, Rewrite] = {
    "two Transposes after each node": insert_transposes,
    "weights as inputs": feed_weights,
    "inputs as weights": fold_inputs,
}


def _tensor(name: str, value: np.ndarray) -> TensorProto:
    if value.dtype.kind == "U":
        return helper.make_tensor(name, element_type(value.dtype), value.shape, value.ravel().tolist())
    return numpy_helper.from_array(value, name)


CASTS = re.compile(
    r"\.(to|type|type_as|int|long|short|char|byte|_?to_copy|convert_element_type|astype)(\.|$)"
    r"|stablehlo\.convert"
)
"""Operators that convert an element type."""

UNWRITTEN = re.compile(r"\.(new_)?empty(_like|_strided|_permuted)?(\.|$)")
"""Operators that give memory as it is found."""

ACCUMULATING = re.compile(
    r"matmul|\.mm|bmm|addmm|linear|conv|sum|mean|var\b|std|norm|softmax|attention|einsum|dot|prod|pool|loss|fft"
    r"|interpolate|resize|solve|inv|det|call_tir"
    r"|stablehlo\.\w*(reduce|scatter)",
    re.IGNORECASE,
)
"""Operators that sum many terms, in any order."""

RANDOM = re.compile(
    r"rand|dropout|bernoulli|multinomial|normal_|(?<!stablehlo\.)exponential|stablehlo\.rng", re.IGNORECASE
)
"""Operators that draw random numbers."""


def writes(binding: Binding) -> bool:
    """Whether an operator's name, or an operand of it, says that it writes to what it reads."""
    words = binding.op.split(".")
    has_mark = any(word.endswith("_") and not word.endswith("__") for word in words)
    return has_mark or words[-1] in ("setitem", "out") or "out" in binding.kwargs


def left_open_by_graph(program: GraphProgram, wanted: Collection[str], values: Mapping[str, Value]) -> str:
    """Say why one of the wanted bindings is free to give any value, by its operands; empty if none is."""
    bindings = [binding for binding in program.main.bindings if binding.name in wanted]
    if any(_overflows(binding, values) for binding in bindings):
        return "a float that does not fit into the integer it becomes"
    filled = {name for binding in program.main.bindings if writes(binding) for name in binding.reads}
    if any(UNWRITTEN.search(binding.op) and binding.name not in filled for binding in bindings):
        return "memory that was never written to"
    if any(_starts_oddly(binding, {**program.constants, **values}) for binding in bindings):
        return "a sum or product whose first value is counted as often as the compiler likes"
    if _reads_overwritten(program.main, wanted):
        return "a value that is read after a call wrote over it"
    return ""


def overwritten(binding: Binding) -> frozenset[str]:
    """The values that a call writes its results over; nothing may read them after it."""
    if binding.op != "relax.call_tir_inplace":
        return frozenset()
    operands = [item for each in binding.args[1:] for item in each.get("tuple", [each])]
    places = binding.kwargs["attributes"][1]["inplace_indices"]
    written = (operands[place] for place in places if 0 <= place < len(operands))
    return frozenset(item[REF] for item in written if tag_of(item) == REF)


def _reads_overwritten(main: Graph, wanted: Collection[str]) -> bool:
    same: dict[str, str] = {}
    gone: set[str] = set()
    for binding in main.bindings:
        reads = [same.get(name, name) for name in binding.reads]
        if binding.name in wanted and not gone.isdisjoint(reads):
            return True
        if binding.op in ("alias", "match_cast") and len(reads) == 1:
            same[binding.name] = reads[0]
        gone.update(same.get(name, name) for name in overwritten(binding))
    return any(same.get(name, name) in gone for name in main.outputs if name in wanted)


NEUTRAL = {"stablehlo.add": 0, "stablehlo.multiply": 1}
"""By what a reduction's body computes, the first value that may be put in any number of times."""
REDUCES = frozenset({"stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.select_and_scatter"})


def _starts_oddly(binding: Binding, values: Mapping[str, Value]) -> bool:
    """Whether a sum or product of StableHLO starts with another value than 0 or 1."""
    if binding.op not in REDUCES or not binding.bodies:
        return False
    body, places = binding.bodies[-1], len(binding.bodies[-1].outputs)
    neutral = {each.name: NEUTRAL[each.op] for each in body.bindings if each.op in NEUTRAL}
    starts = zip(body.outputs, binding.args[-places:], strict=True)
    return any(
        name in neutral and not np.all(np.asarray(values.get(start[REF], neutral[name])) == neutral[name])
        for name, start in starts
    )


def _overflows(binding: Binding, values: Mapping[str, Value]) -> bool:
    made = values.get(binding.name)
    read = values.get(binding.reads[0]) if binding.reads and CASTS.search(binding.op) else None
    return isinstance(made, np.ndarray) and isinstance(read, np.ndarray) and is_beyond(read, made.dtype)


GraphTypes: TypeAlias = Mapping[str, tuple[str, tuple[int, ...]]]
"""By name the dtype and sizes of tensors; names of anything else, or of unknown sizes, are left out."""
GraphRewrite: TypeAlias = Callable[[GraphProgram, GraphTypes], "GraphProgram | None"]

_LEAST, _MOST = 2, 24
_APART = 1_000_000
"""Added to the number of a dataflow block that a call has cut in two."""


class Cut:
    """A run of bindings, the tensors that it reads, and those of its own that are read later."""

    def __init__(self, program: GraphProgram, first: int, last: int) -> None:
        bindings = program.main.bindings
        self.program = program
        self.first, self.last = first, last
        self.inside = bindings[first:last]
        made = {each.name for each in self.inside}
        around = [name for each in self.inside for name in each.reads if name not in made]
        self.reads = [name for name in dict.fromkeys(around) if name not in program.constants]
        later = {name for each in bindings[last:] for name in each.reads} | {*program.main.outputs}
        self.gives = [each.name for each in self.inside if each.name in later]

    def fits(self, types: GraphTypes) -> bool:
        """Whether all that crosses the border has a type, and no symbol is named within."""
        crossing = [*self.reads, *self.gives]
        text = str([(each.args, dict(each.kwargs)) for each in self.inside])
        return bool(self.gives) and all(name in types for name in crossing) and not _names_symbol(text)


def _names_symbol(text: str) -> bool:
    """Whether a shape, a type or a number within may hold a symbol: such bindings stay where they are."""
    return "'graph'" in text or "shape_type" in text or "'shape': ['" in text


def longest_cut(program: GraphProgram, types: GraphTypes) -> Cut | None:
    """The longest run that can move; the first of several."""
    count = len(program.main.bindings)
    for length in range(min(count, _MOST), _LEAST - 1, -1):
        for first in range(count - length + 1):
            cut = Cut(program, first, first + length)
            if all(
                each.name in types and each.op not in ("if", "function", "match_cast") for each in cut.inside
            ) and cut.fits(types):
                return cut
    return None


def body_of(cut: Cut, types: GraphTypes, names: Callable[[str], str]) -> Graph:
    """The run as a graph with inputs of its own."""
    inputs = tuple(Input(names(name), *types[name]) for name in cut.reads)
    moved = tuple(_block(each, 2 * _APART) for each in cut.inside)
    graph = Graph(inputs, moved, tuple(cut.gives), {"pure": True})
    local = {name: names(name) for name in (*cut.reads, *(each.name for each in cut.inside))}
    holder = replace(cut.program, main=graph, functions={}, opaque={}, loops={}, constants={})
    return renamed(holder, local).main


def _block(binding: Binding, apart: int) -> Binding:
    if "block" not in binding.kwargs:
        return binding
    return replace(binding, kwargs={**binding.kwargs, "block": binding.kwargs["block"] + apart})


def joined(cut: Cut, calls: Sequence[Binding], result: str, functions: Mapping[str, Graph]) -> GraphProgram:
    """The program with these calls in place of the run; the run's names are fields of their result."""
    main = cut.program.main
    fields: Iterator[Binding] = (
        Binding(name, "getitem", ({REF: result}, place)) for place, name in enumerate(cut.gives)
    )
    if len(cut.gives) == 1:
        fields = iter([Binding(cut.gives[0], "alias", ({REF: result},))])
    after = tuple(_block(each, _APART) for each in main.bindings[cut.last :])
    bindings = (*main.bindings[: cut.first], *calls, *fields, *after)
    program = replace(cut.program, main=replace(main, bindings=bindings))
    return replace(program, functions={**cut.program.functions, **functions})


def _fresh(program: GraphProgram) -> Callable[[str], str]:
    """Names that the program does not have, one for each of its own."""

    given: dict[str, str] = {}

    def name(old: str) -> str:
        if old not in given:
            new = f"{old}_"
            while new in program.names or new in given.values():
                new += "_"
            given[old] = new
        return given[old]

    return name


def outline(program: GraphProgram, types: GraphTypes) -> GraphProgram | None:
    """The run as a function of the module, and a call of it."""
    cut = longest_cut(program, types)
    if cut is None:
        return None
    names = _fresh(program)
    function, result = names("outlined"), names("result")
    args = ({"function": function}, *({REF: name} for name in cut.reads))
    return joined(cut, [Binding(result, "call", args)], result, {function: body_of(cut, types, names)})


def enclose(program: GraphProgram, types: GraphTypes) -> GraphProgram | None:
    """Turn the run into a closure and a call of it. All operands but the first are captured."""
    cut = longest_cut(program, types)
    if cut is None or not cut.reads:
        return None
    names = _fresh(program)
    graph = body_of(cut, types, names)
    captured = {names(name): name for name in cut.reads[1:]}
    open_graph = replace(graph, inputs=graph.inputs[:1])
    holder = replace(program, main=open_graph, functions={}, opaque={}, loops={}, constants={})
    body = renamed(holder, captured).main
    closure, result = names("closure"), names("result")
    calls = [
        Binding(closure, "function", ({GRAPH: graph_to_json(body)},)),
        Binding(result, "call", ({REF: closure}, {REF: cut.reads[0]})),
    ]
    return joined(cut, calls, result, {})


def returned(program: GraphProgram, types: GraphTypes) -> GraphProgram | None:
    """The run as a closure that a function of the module returns: what it is called with is captured."""
    cut = longest_cut(program, types)
    if cut is None or not cut.reads:
        return None
    names = _fresh(program)
    graph = body_of(cut, types, names)
    maker, inner, closure, result = (names(each) for each in ("maker", "inner", "closure", "result"))
    body = replace(graph, inputs=graph.inputs[-1:])
    outer = Graph(
        graph.inputs[:-1],
        (Binding(inner, "function", ({GRAPH: graph_to_json(body)},)),),
        (inner,),
        {"pure": True},
    )
    first = tuple({REF: name} for name in cut.reads[:-1])
    calls = [
        Binding(closure, "call", ({"function": maker}, *first)),
        Binding(result, "call", ({REF: closure}, {REF: cut.reads[-1]})),
    ]
    return joined(cut, calls, result, {maker: outer})


GRAPH_REWRITES: Mapping[str, GraphRewrite] = {
    "a run as a function": outline,
    "a run as a closure": enclose,
    "a run as a closure that a function returns": returned,
}
"""By what is done."""
