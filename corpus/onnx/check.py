"""What onnx's own checker and strict inference have against a model."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, TypeProto

from corpus.onnx.client import check
from corpus.onnx.graph import outer_names, tensors, topological
from corpus.onnx.infer import is_external, light_copy, propagates_well
from corpus.onnx.types import packed_bytes

_LENGTH = 600


def checker_complaint(model: ModelProto) -> str | None:
    """One line of complaint; None when the checker and strict inference accept the model.

    Weights are not needed: external and large ones are checked for their length alone. Operators of domains
    that onnx does not know are tolerated. The checker refuses some models that run, so a complaint alone is
    no proof that a model is invalid; and where it crashes, nothing was said against the model.
    """
    return _order_complaint(model) or _weights_complaint(model) or _onnx_complaint(model)


def _order_complaint(model: ModelProto) -> str | None:
    nodes, known = model.graph.node, outer_names(model.graph)
    ready = set(known)
    for node in nodes:
        if not all(name in ready for name in node.input if name):
            break
        ready.update(node.output)
    else:
        return None
    if topological(nodes, known) is None:
        return "the graph has a cycle, or reads a value that nothing computes"
    return "the nodes are not in topological order"


def _weights_complaint(model: ModelProto) -> str | None:
    for tensor in tensors(model):
        expected = packed_bytes(tensor.data_type, tensor.dims)
        if expected is None or not tensor.HasField("raw_data") or is_external(tensor):
            continue
        held = len(tensor.raw_data)
        if held != expected:
            return f"tensor {tensor.name!r} holds {held} bytes, its type and dims take {expected}"
    return None


def _onnx_complaint(model: ModelProto) -> str | None:
    light = light_copy(model)
    light.graph.value_info.extend(model.graph.value_info)
    inferred = light.SerializeToString()
    for value in light.graph.output:
        _fill_type(value.type)
    complaint = check(light.SerializeToString(), inferred, propagates_well(light))
    return None if complaint is None else " ".join(complaint.split())[:_LENGTH]


def _fill_type(declared: TypeProto) -> None:
    """Give an output a type and a shape if it has none: backends do without, the checker does not."""
    if declared.WhichOneof("value") is None:
        declared.tensor_type.elem_type = TensorProto.FLOAT
    if declared.WhichOneof("value") == "tensor_type":
        declared.tensor_type.shape.SetInParent()
