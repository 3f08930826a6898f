"""Between values and the protobuf that declares or holds them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from corpus.case import ExternalFile
from corpus.values import Tensor, Value


def element_type(array: Tensor) -> int:
    """ONNX's element type of an array."""
    if array.dtype.kind in "USO":
        return onnx.TensorProto.STRING
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def type_of(value: Value) -> onnx.TypeProto | None:
    """The static type of a value; None for an absent optional and for an empty sequence."""
    if isinstance(value, list):
        if not value:
            return None
        # members may differ in shape, so only their element type is declared
        member = helper.make_tensor_type_proto(element_type(value[0]), None)
        return helper.make_sequence_type_proto(member)
    if value is None:
        return None
    return helper.make_tensor_type_proto(element_type(value), value.shape)


def initializer(name: str, array: Tensor) -> onnx.TensorProto:
    """An initializer that holds `array`."""
    if array.dtype.kind in "US":
        array = array.astype(object)
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def read_tensor(tensor: onnx.TensorProto, external: Iterable[ExternalFile]) -> Tensor:
    """The array of an initializer; one kept outside the model is a view of its file, never read whole."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return numpy_helper.to_array(tensor)
    place = {entry.key: entry.value for entry in tensor.external_data}
    file = next(file for file in external if file.location == place["location"])
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    offset, shape = int(place.get("offset", 0)), tuple(tensor.dims)
    if 0 in shape:
        return np.empty(shape, dtype)
    if tensor.data_type in PACKED:
        return numpy_helper.to_array(_embedded(tensor, file.path, offset))
    return np.memmap(file.path, dtype, "r", offset, shape or (1,)).reshape(shape)


PACKED = frozenset({onnx.TensorProto.INT4, onnx.TensorProto.UINT4, onnx.TensorProto.FLOAT4E2M1})
"""Element types of which two share a byte."""


def _embedded(tensor: onnx.TensorProto, path: Path, offset: int) -> onnx.TensorProto:
    """A copy that holds its data itself."""
    copy = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, name=tensor.name)
    with path.open("rb") as file:
        file.seek(offset)
        copy.raw_data = file.read((math.prod(tensor.dims) + 1) // 2)
    return copy


def shape_key(type_proto: onnx.TypeProto | None) -> tuple[object, ...] | None:
    """What two tensors must share to stand in for each other: element type and dims, symbols included."""
    if type_proto is None:
        return None
    kind = type_proto.WhichOneof("value")
    if kind != "tensor_type":
        return (kind, type_proto.SerializeToString(deterministic=True))
    tensor = type_proto.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = tuple(_dim_key(dim) for dim in tensor.shape.dim)
    return None if None in dims else (tensor.elem_type, dims)


def _dim_key(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or None
