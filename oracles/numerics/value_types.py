"""The type of every value of a model, as far as shape inference knows it, and what operators allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, TypeProto, defs

from corpus.onnx.graph import walk_graphs, walk_nodes
from corpus.onnx.infer import graph_types, infer, untyped_copy
from corpus.onnx.types import dtype_name, element_type
from corpus.values import Tensor, Value

Types = Mapping[str, TypeProto.Tensor]


def tensor_types(model: ModelProto, inputs: Mapping[str, Value] | None = None) -> dict[str, TypeProto.Tensor]:
    """Tensor types by name, nested bodies included; `inputs` pin the symbolic dims of the graph's inputs.

    What inference cannot tell (an unknown domain, a sequence) is not in it. Never raises on a bad model.
    """
    light = untyped_copy(model)
    _pin_dims(light.graph, inputs or {})
    types: dict[str, TypeProto.Tensor] = {}
    for graph in walk_graphs(infer(light).graph):
        for name, declared in graph_types(graph).items():
            if declared.WhichOneof("value") == "tensor_type":
                types[name] = declared.tensor_type
    return types


def _pin_dims(graph: GraphProto, inputs: Mapping[str, Value]) -> None:
    for value in graph.input:
        array = inputs.get(value.name)
        if not isinstance(array, np.ndarray) or value.type.WhichOneof("value") != "tensor_type":
            continue
        shape = value.type.tensor_type.shape
        if len(shape.dim) == array.ndim:
            for dim, size in zip(shape.dim, array.shape, strict=True):
                dim.dim_value = size


def static_dims(declared: TypeProto.Tensor) -> tuple[int, ...] | None:
    """The shape when every size is known, else None."""
    if not declared.HasField("shape") or not all(dim.HasField("dim_value") for dim in declared.shape.dim):
        return None
    return tuple(dim.dim_value for dim in declared.shape.dim)


def type_complaint(model: ModelProto) -> str | None:
    """The first node whose operator does not allow an input's type; the checker does not look at that."""
    versions = {opset.domain: opset.version for opset in model.opset_import}
    types = tensor_types(model)
    for node in walk_nodes(model.graph):
        version = versions.get(node.domain)
        if version is not None and defs.has(node.op_type, version, node.domain):
            schema = defs.get_schema(node.op_type, version, node.domain)
            for name, allowed in zip(node.input, _allowed(schema, len(node.input)), strict=False):
                found = _type_text(types.get(name))
                if found and found not in allowed:
                    return f"{node.op_type}: {found} is not allowed for input {name!r}"
    return None


def _allowed(schema: defs.OpSchema, count: int) -> Iterable[frozenset[str]]:
    formal = list(schema.inputs)
    for index in range(count):
        if formal:
            yield frozenset(formal[min(index, len(formal) - 1)].types)


def _type_text(declared: TypeProto.Tensor | None) -> str:
    if declared is None:
        return ""
    return f"tensor({TensorProto.DataType.Name(declared.elem_type).lower()})"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`kind` is `dtype` or `shape`."""

    kind: str
    actual: str
    declared: str

    def __str__(self) -> str:
        return f"{self.actual} where its inputs fix {self.declared}"


def contradiction(declared: TypeProto.Tensor, value: Value) -> Contradiction | None:
    """Say how a tensor contradicts its declared type; None if it does not, or if it is no tensor."""
    if not isinstance(value, np.ndarray):
        return None
    element = _element(value)
    if element is not None and declared.elem_type and element != declared.elem_type:
        return Contradiction("dtype", dtype_name(element), dtype_name(declared.elem_type))
    if not declared.HasField("shape") or _fits(declared, value.shape):
        return None
    dims = (
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in declared.shape.dim
    )
    return Contradiction("shape", _shape_text(value.shape), _shape_text(dims))


def keeps_to(declared: TypeProto.Tensor, value: Value, kind: str) -> bool:
    """Whether a tensor has the declared `shape`, or is of the whole type where `kind` is `dtype`.

    The reference evaluator's dtypes are often numpy's own, its shapes are to be trusted.
    """
    if not isinstance(value, np.ndarray):
        return False
    return _fits(declared, value.shape) if kind == "shape" else contradiction(declared, value) is None


def outputs_contradict(model: ModelProto, outputs: Mapping[str, Value]) -> bool:
    """Whether an output contradicts the model's own declaration of it."""
    return any(
        contradiction(output.type.tensor_type, outputs.get(output.name)) is not None
        for output in model.graph.output
        if output.type.HasField("tensor_type")
    )


def _element(value: Tensor) -> int | None:
    try:
        return element_type(value.dtype)
    except KeyError:
        return None


def _fits(declared: TypeProto.Tensor, shape: tuple[int, ...]) -> bool:
    dims = declared.shape.dim
    return len(dims) == len(shape) and all(
        not dim.HasField("dim_value") or dim.dim_value == size for dim, size in zip(dims, shape, strict=True)
    )


def _shape_text(dims: Iterable[object]) -> str:
    return f"[{','.join(map(str, dims))}]"
