"""Small ONNX models: from text, from nodes, and some that many tests want."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from corpus.case import Case
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from corpus.target import Target
from corpus.values import Value

OPSET = 17
IR = 8


def model_of(
    graph: str, opset: int = OPSET, ir: int = IR, domains: str = "", **weights: np.ndarray | TensorProto
) -> onnx.ModelProto:
    """The model of a graph in ONNX's text form, to which weights are added; `domains` in one word each."""
    others = "".join(f', "{domain}" : 1' for domain in domains.split())
    made = onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}{others}]> {graph}')
    for name, weight in weights.items():
        is_tensor = isinstance(weight, TensorProto)
        made.graph.initializer.append(weight if is_tensor else numpy_helper.from_array(weight, name))
    return made


def case_of(
    graph: str,
    *,
    opset: int = OPSET,
    ir: int = IR,
    domains: str = "",
    target: Target | None = None,
    **inputs: Any,
) -> Case:
    """The case of a graph in ONNX's text form, with these inputs; a number of numpy is an array of rank 0."""
    given = {
        name: np.asarray(each) if isinstance(each, np.generic) else each for name, each in inputs.items()
    }
    return Case("onnx", model_of(graph, opset, ir, domains).SerializeToString(), given, target)


def of_many_types(target: Target) -> Case:
    """A node on each of some types, with values that a shorter type does not hold."""
    text = """g (double[2] d, float16[2] h, bfloat16[2] b, uint8[2] u, int64[2] i, bool c) =>
        (double[2] d2, float16[2] h2, bfloat16[2] b2, uint8[2] u2, int64[2] i2, bool c2) {
        d2 = Neg(d) h2 = Neg(h) b2 = Identity(b) u2 = Add(u, u) i2 = Neg(i) c2 = Not(c) }"""
    given = {
        "d": np.array([1e300, 2]),
        "h": np.float16([1, 2]),
        "b": np.array([1, 2], ml_dtypes.bfloat16),
        "u": np.uint8([100, 2]),
        "i": np.int64([1 << 40, 2]),
        "c": np.bool_(True),
    }
    return case_of(text, target=target, **given)


def chain_of(operators: Sequence[str], dims: str = "2", dtype: str = "float") -> onnx.ModelProto:
    """Operators in a row, from `x` by `v0` on."""
    names = ["x", *(f"v{at}" for at in range(len(operators)))]
    nodes = " ".join(f"{names[at + 1]} = {each} ({names[at]})" for at, each in enumerate(operators))
    return model_of(f"g ({dtype}[{dims}] x) => ({dtype}[{dims}] {names[-1]}) {{ {nodes} }}")


def value(name: str, dims: Sequence[int | str | None] | None, dtype: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def model(
    nodes, inputs, outputs, initializers=(), value_info=(), functions=(), domains=()
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes), "g", list(inputs), list(outputs), list(initializers), value_info=list(value_info)
    )
    opsets = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR, functions=list(functions))


def relu(dims: Sequence[int | str | None] = (2, 3), dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    node = helper.make_node("Relu", ["x"], ["y"])
    return model([node], [value("x", dims, dtype)], [value("y", dims, dtype)])


def identity(inputs) -> onnx.ModelProto:
    """A model that takes the given inputs and hands each on."""
    nodes = [helper.make_node("Identity", [item.name], [f"out{i}"]) for i, item in enumerate(inputs)]
    outputs = [onnx.ValueInfoProto(name=f"out{i}", type=item.type) for i, item in enumerate(inputs)]
    return model(nodes, inputs, outputs)


def cyclic() -> onnx.ModelProto:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    return model(nodes, [value("x", [2])], [value("b", [2])])


def external(location: str, elements: int, offset: str = "0", length: str | None = None) -> onnx.ModelProto:
    """`y = x + w` with `w` in another file."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[elements])
    weight.data_location = TensorProto.EXTERNAL
    entries = {
        "location": location,
        "offset": offset,
        "length": str(elements * 4) if length is None else length,
    }
    for key, text in entries.items():
        weight.external_data.add(key=key, value=text)
    node = helper.make_node("Add", ["x", "w"], ["y"])
    return model([node], [value("x", [1])], [value("y", [elements])], [weight])


def write(folder: Path, program: onnx.ModelProto, name: str = "model.onnx") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(program.SerializeToString())
    return path


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def aten_case(graph: str, inputs: dict[str, Value]) -> Case:
    """A program of torch's own operators, `aten.NAME`, for inductor."""
    head = '<ir_version: 8, opset_import: ["" : 18, "org.pytorch.aten" : 1]>'
    model = onnx.parser.parse_model(f"{head} g {graph.replace('aten.', 'org.pytorch.aten.')}")
    return Case("onnx", model.SerializeToString(), inputs, Target("inductor"))


def ref(name: str) -> dict[str, str]:
    return {REF: name}


def graph_of(
    format: str,
    inputs: Mapping[str, Value],
    *bindings: Binding,
    outputs: tuple[str, ...] = (),
    layout: Any = None,
) -> GraphProgram:
    """One function, which gives its last binding if nothing else; the layout is that of its first input."""
    taken = tuple(
        Input(name, value.dtype.name, value.shape, None if place else layout)
        for place, (name, value) in enumerate(inputs.items())
        if isinstance(value, np.ndarray)
    )
    is_relax = format == "relax"
    main = Graph(taken, bindings, outputs or (bindings[-1].name,), {"pure": True} if is_relax else {})
    return GraphProgram(format, main, facts={"main": "main"} if is_relax else {})


def graph_case(
    format: str,
    inputs: Mapping[str, Value],
    *bindings: Binding,
    outputs: tuple[str, ...] = (),
    layout: Any = None,
    target: Target | None = None,
) -> Case:
    """The case of such a program."""
    program = graph_of(format, inputs, *bindings, outputs=outputs, layout=layout)
    return Case(format, program.to_bytes(), dict(inputs), target)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path from there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
