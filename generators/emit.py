"""From what has grown to an `onnx.ModelProto`, written field by field (`onnx.helper` is far slower)."""

from __future__ import annotations

import onnx

from corpus.values import Tensor
from generators.scope import Node, Scope
from generators.spec import Attribute, Operand
from generators.types import OF_NUMPY

# The IR version that came with an opset, so that an old reader of that opset reads the model too.
_IR_VERSION = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}


def write_model(scope: Scope, outputs: list[Operand]) -> onnx.ModelProto:
    """The model of everything in the scope."""
    model = onnx.ModelProto(ir_version=_IR_VERSION[scope.opset], producer_name="tensorcrux")
    model.opset_import.add(domain="", version=scope.opset)
    for domain in sorted({node.domain for node in scope.nodes if node.domain}):
        model.opset_import.add(domain=domain, version=1)
    graph = model.graph
    graph.name = "graph"
    for operand, _ in scope.inputs:
        _declare(graph.input.add(), operand)
    for operand in outputs:
        _declare(graph.output.add(), operand)
    _declare_contrib(graph, scope)
    for name, array in scope.initializers:
        tensor = graph.initializer.add()
        tensor.name = name
        _fill(tensor, array)
    for name, array in scope.constants:
        node = graph.node.add(op_type="Constant", name=f"constant_{name}", output=(name,))
        _fill(node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t, array)
    for grown in scope.nodes:
        _write_node(graph, grown)
    return model


def _declare_contrib(graph: onnx.GraphProto, scope: Scope) -> None:
    """The types of inner results that only their own operator set can infer."""
    foreign = {name for node in scope.nodes if node.domain for name in node.results}
    shown = {info.name for info in graph.output}
    for operand in scope.pool:
        if operand.name in foreign and operand.name not in shown:
            _declare(graph.value_info.add(), operand)


def _write_node(graph: onnx.GraphProto, grown: Node) -> None:
    name = f"{grown.op_type}_{grown.results[0]}"
    node = graph.node.add(op_type=grown.op_type, name=name, input=grown.operands, output=grown.results)
    if grown.domain:
        node.domain = grown.domain
    for attribute, value in grown.attributes.items():
        _write_attribute(node.attribute.add(name=attribute), value)


def _write_attribute(proto: onnx.AttributeProto, value: Attribute) -> None:
    if isinstance(value, int):
        proto.type, proto.i = onnx.AttributeProto.INT, value
    elif isinstance(value, float):
        proto.type, proto.f = onnx.AttributeProto.FLOAT, value
    elif isinstance(value, str):
        proto.type, proto.s = onnx.AttributeProto.STRING, value.encode()
    elif isinstance(value, tuple):
        _write_list(proto, value)
    else:
        proto.type = onnx.AttributeProto.TENSOR
        _fill(proto.t, value)


def _write_list(
    proto: onnx.AttributeProto, values: tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
) -> None:
    """A list of one type; an empty one is of integers."""
    if values and isinstance(values[0], float):
        proto.type = onnx.AttributeProto.FLOATS
        proto.floats.extend(float(value) for value in values)
    elif values and isinstance(values[0], str):
        proto.type = onnx.AttributeProto.STRINGS
        proto.strings.extend(str(value).encode() for value in values)
    else:
        proto.type = onnx.AttributeProto.INTS
        proto.ints.extend(int(value) for value in values)


def _declare(info: onnx.ValueInfoProto, operand: Operand) -> None:
    info.name = operand.name
    tensor = info.type.tensor_type
    tensor.elem_type = int(operand.dtype)
    tensor.shape.SetInParent()
    for dim in operand.shape:
        tensor.shape.dim.add(dim_value=dim)


def _fill(tensor: onnx.TensorProto, array: Tensor) -> None:
    tensor.data_type = int(OF_NUMPY[array.dtype])
    tensor.dims.extend(array.shape)
    tensor.raw_data = array.tobytes()
