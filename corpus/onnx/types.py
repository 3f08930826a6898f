"""ONNX element types beside numpy's: the one table of dtypes.

Types that numpy lacks are ml_dtypes' (one element a byte, packed nowhere in memory); ONNX packs 2-, 4- and
6-bit elements in `raw_data`, which `packed_bytes` accounts for. Strings are numpy's `U`.

onnx's inference and checker are given a light copy of the model: large and external initializers become
inputs of the same type (their values never decide a shape), value_info and documentation are left out.
"""

import math
from collections.abc import Iterable

import ml_dtypes
import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from corpus.onnx.client import infer_types
from corpus.onnx.graph import subgraphs, walk_graphs
from corpus.values import InputType

DTYPES: dict[int, np.dtype] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    8: np.dtype(np.str_),
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    14: np.dtype(np.complex64),
    15: np.dtype(np.complex128),
    16: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype(ml_dtypes.float8_e4m3fn),
    18: np.dtype(ml_dtypes.float8_e4m3fnuz),
    19: np.dtype(ml_dtypes.float8_e5m2),
    20: np.dtype(ml_dtypes.float8_e5m2fnuz),
    21: np.dtype(ml_dtypes.uint4),
    22: np.dtype(ml_dtypes.int4),
    23: np.dtype(ml_dtypes.float4_e2m1fn),
    24: np.dtype(ml_dtypes.float8_e8m0fnu),
    25: np.dtype(ml_dtypes.uint2),
    26: np.dtype(ml_dtypes.int2),
    27: np.dtype(ml_dtypes.float6_e2m3fn),
    28: np.dtype(ml_dtypes.float6_e3m2fn),
}
ELEMENT_TYPES: dict[np.dtype, int] = {dtype: code for code, dtype in DTYPES.items()}
STRING, BYTE = 8, 2
_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}


def element_type(dtype: np.dtype) -> int:
    """The ONNX element type of a numpy dtype; KeyError when it has none."""
    if dtype.kind in "UO":
        return STRING
    return ELEMENT_TYPES[dtype.newbyteorder("=")]


def dtype_name(code: int) -> str:
    """A person's word for an element type, for example `float32`, `bfloat16`, `string`."""
    if code == STRING:
        return "string"
    return DTYPES[code].name if code in DTYPES else f"element type {code}"


def packed_bytes(code: int, dims: Iterable[int]) -> int | None:
    """The length of `raw_data` or of external data; None for strings and unknown types."""
    if code == STRING or code not in DTYPES:
        return None
    bits = _BITS.get(code, DTYPES[code].itemsize * 8)
    return (math.prod(max(dim, 0) for dim in dims) * bits + 7) // 8


def memory_bytes(code: int, dims: Iterable[int]) -> int:
    """The least a tensor takes in memory; a string counts as one byte, an unknown type as nothing."""
    return packed_bytes(BYTE if code == STRING else code, dims) or 0


def declared_shape(tensor: TypeProto.Tensor) -> tuple[int | str | None, ...] | None:
    """The declared shape: numbers, names of symbolic dims, None where unknown; None without a rank.

    A negative size is what old exporters write for "unknown".
    """
    if not tensor.HasField("shape"):
        return None
    dims: list[int | str | None] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value"):
            dims.append(dim.dim_value if dim.dim_value >= 0 else None)
        else:
            dims.append(dim.dim_param or None)
    return tuple(dims)


def input_type(declared: TypeProto, required: bool = True) -> InputType | None:
    """The arrays that a declared type admits; None for sparse tensors or an unknown type."""
    optional = declared.WhichOneof("value") == "optional_type"
    inner = declared.optional_type.elem_type if optional else declared
    sequence = inner.WhichOneof("value") == "sequence_type"
    element = inner.sequence_type.elem_type if sequence else inner
    if inner.WhichOneof("value") == "map_type" and not optional:
        return _map_type(inner.map_type, required)
    if element.WhichOneof("value") != "tensor_type" or element.tensor_type.elem_type not in DTYPES:
        return None
    tensor = element.tensor_type
    return InputType(DTYPES[tensor.elem_type], declared_shape(tensor), sequence, optional, required)


def _map_type(declared: TypeProto.Map, required: bool) -> InputType | None:
    values = declared.value_type.tensor_type.elem_type
    if declared.key_type not in DTYPES or values not in DTYPES:
        return None
    return InputType(DTYPES[values], (None,), required=required, key=DTYPES[declared.key_type])


SMALL_BYTES = 4096
"""Initializers up to this size keep their values: shapes, axes and the like."""

_LONGEST_SHAPE = 1 << 16
_FILL_BYTES = 16 << 20


def is_external(tensor: TensorProto) -> bool:
    """Whether the values lie in a file beside the model."""
    return tensor.data_location == TensorProto.EXTERNAL


def is_light(tensor: TensorProto) -> bool:
    """Whether a tensor is small and inline, so that it may be copied freely.

    By its dims: to ask protobuf for the size of a message is to serialise it.
    """
    return not is_external(tensor) and memory_bytes(tensor.data_type, tensor.dims) <= SMALL_BYTES


def tensor_type(tensor: TensorProto) -> TypeProto:
    """The type of an initializer."""
    made = TypeProto()
    made.tensor_type.elem_type = tensor.data_type
    made.tensor_type.shape.SetInParent()
    for dim in tensor.dims:
        made.tensor_type.shape.dim.add().dim_value = dim
    return made


def light_copy(model: ModelProto) -> ModelProto:
    """The model with its structure and small constants only; value_info and documentation left out."""
    light = ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph, source = light.graph, model.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.sparse_initializer.extend(source.sparse_initializer)
    inputs = {value.name for value in source.input}
    for tensor in source.initializer:
        if is_light(tensor):
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            graph.input.append(ValueInfoProto(name=tensor.name, type=tensor_type(tensor)))
    _fill_nested(graph.node)
    return light


def _fill_nested(nodes: Iterable[NodeProto]) -> None:
    """Give external tensors of bodies zeros of their own: a body has no inputs to move them to."""
    for node in nodes:
        for body in subgraphs(node):
            for graph in walk_graphs(body):
                for tensor in graph.initializer:
                    size = packed_bytes(tensor.data_type, tensor.dims)
                    if is_external(tensor) and size is not None and size <= _FILL_BYTES:
                        tensor.ClearField("external_data")
                        tensor.ClearField("data_location")
                        tensor.raw_data = bytes(size)


def infer(light: ModelProto) -> ModelProto:
    """The light copy with every type that inference finds; as it was where inference gives up."""
    answer = infer_types(light.SerializeToString(), propagates_well(light))
    return light if answer is None else ModelProto.FromString(answer)


def propagates_well(light: ModelProto) -> bool:
    """Whether data may be propagated: onnx takes every vector for a shape and follows each element."""
    shapes = [value.type.tensor_type.shape.dim for value in light.graph.input]
    return all(len(dims) != 1 or dims[0].dim_value <= _LONGEST_SHAPE for dims in shapes)


def untyped_copy(model: ModelProto) -> ModelProto:
    """Copy the model without its type annotations, except those of inputs, at every depth."""
    light = light_copy(model)
    names = [value.name for value in light.graph.output]
    del light.graph.output[:]
    light.graph.output.extend(ValueInfoProto(name=name) for name in names)
    for node in light.graph.node:
        for body in subgraphs(node):
            for graph in walk_graphs(body):
                del graph.value_info[:]
    return light


def inferred_types(model: ModelProto) -> dict[str, TypeProto]:
    """The type of every value of the main graph that inference can tell, annotations disregarded."""
    return graph_types(infer(untyped_copy(model)).graph)


def graph_types(graph: GraphProto) -> dict[str, TypeProto]:
    """Map each name of a graph to its type: initializers, inputs, value_info and outputs."""
    types = {tensor.name: tensor_type(tensor) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if is_typed(value.type):
            types.setdefault(value.name, value.type)
    return types


def is_typed(declared: TypeProto) -> bool:
    """Whether the type says at least what an element is."""
    match declared.WhichOneof("value"):
        case None:
            return False
        case "tensor_type":
            return declared.tensor_type.elem_type != TensorProto.UNDEFINED
        case "sparse_tensor_type":
            return declared.sparse_tensor_type.elem_type != TensorProto.UNDEFINED
        case "sequence_type":
            return is_typed(declared.sequence_type.elem_type)
        case "optional_type":
            return is_typed(declared.optional_type.elem_type)
        case _:
            return True
