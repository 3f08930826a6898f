"""A program and its inputs in float64: the same nodes on values that hardly round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from corpus.onnx.graph import tensors, walk_all_graphs, walk_model
from corpus.values import Tensor, Value, widen
from oracles.numerics.input_noise import EPSILON
from oracles.operators import arithmetic_of
from oracles.run import Run

NARROW = frozenset(EPSILON) - {TensorProto.DOUBLE}


def program_in_double(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Copy the program with every float widened to float64.

    None if that changes the meaning, or if weights lie in other files.
    """
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors(model)):
        return None
    if any(arithmetic_of(node).reads_bits for node in walk_model(model)):
        return None
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in tensors(wide):
        _widen_tensor(tensor)
    for node in walk_model(wide):
        _widen_node(node)
    for graph in walk_all_graphs(wide):
        del graph.value_info[:]
        for declared in _declared(graph):
            _widen_type(declared)
    return wide


def inputs_in_double(inputs: Mapping[str, Value]) -> dict[str, Value]:
    """The inputs with their floats in float64."""
    return {name: _widen_value(value) for name, value in inputs.items()}


def outputs_like(wide: Run, narrow: Run) -> dict[str, Value]:
    """The outputs of a run in float64 in the types of another run's; those that it lacks are left out."""
    return {
        name: _like(wide.outputs[name], value)
        for name, value in narrow.outputs.items()
        if name in wide.outputs
    }


def _like(wide: Value, narrow: Value) -> Value:
    if isinstance(wide, np.ndarray) and isinstance(narrow, np.ndarray):
        with np.errstate(over="ignore", invalid="ignore"):
            converted: Value = wide.astype(narrow.dtype)
        return converted
    return wide


def _widen_value(value: Value) -> Value:
    if isinstance(value, list):
        return [_widen_array(item) for item in value]
    return None if value is None else _widen_array(value)


def _widen_array(array: Tensor) -> Tensor:
    is_narrow = array.dtype in (np.float32, np.float16) or array.dtype.name == "bfloat16"
    return widen(array).astype(np.float64) if is_narrow else array


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in NARROW:
        wide = _widen_array(numpy_helper.to_array(tensor))
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _widen_node(node: NodeProto) -> None:
    typed_by = arithmetic_of(node).typed_by
    for attribute in node.attribute:
        if attribute.name == typed_by and attribute.i in NARROW:
            attribute.i = TensorProto.DOUBLE
        elif node.op_type == "Constant" and attribute.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
            value = np.array(helper.get_attribute_value(attribute), np.float64)
            attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(value)))
    if node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))


def _declared(graph: GraphProto) -> Iterator[TypeProto]:
    yield from (value.type for value in (*graph.input, *graph.output))


def _widen_type(declared: TypeProto) -> None:
    kind = declared.WhichOneof("value")
    if kind == "tensor_type" and declared.tensor_type.elem_type in NARROW:
        declared.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind in ("sequence_type", "optional_type"):
        _widen_type(getattr(declared, kind).elem_type)
