"""Between values and the protobuf that declares or holds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

from corpus.case import ExternalFile
from corpus.onnx.types import element_type
from corpus.onnx.weights import map_weight
from corpus.values import Tensor, Value


def type_of(value: Value) -> onnx.TypeProto | None:
    """The static type of a value; None for an absent optional, an empty sequence and one of maps."""
    if isinstance(value, list):
        if not value or not all(isinstance(member, np.ndarray) for member in value):
            return None
        return helper.make_sequence_type_proto(_member_type(value))
    if value is None:
        return None
    return helper.make_tensor_type_proto(element_type(value.dtype), value.shape)


def farthest(array: Tensor) -> int:
    """The flat index of the value farthest from zero, the first of several; NaN is farther than any."""
    is_complex = array.dtype.kind == "c"
    wide = np.abs(np.asarray(array).astype(np.complex128 if is_complex else np.float64)).ravel()
    return int(np.argmax(np.where(np.isnan(wide), np.inf, wide)))


def real_parts(array: Tensor) -> Tensor:
    """The numbers of a tensor in a row; of a complex one both parts of each."""
    row = np.ascontiguousarray(array).ravel()
    return row.view(row.real.dtype) if row.dtype.kind == "c" else row


def agrees(declared: onnx.TypeProto, value: Value) -> bool:
    """Whether a tensor has the dims of a type; symbolic dims agree with any, and what is no tensor agrees."""
    if not isinstance(value, np.ndarray) or not declared.tensor_type.HasField("shape"):
        return True
    dims = declared.tensor_type.shape.dim
    fixed = (
        (dim.dim_value, size)
        for dim, size in zip(dims, value.shape, strict=False)
        if dim.HasField("dim_value")
    )
    return len(dims) == value.ndim and all(wanted == size for wanted, size in fixed)


def _member_type(members: list[Tensor]) -> onnx.TypeProto:
    """The common type of a sequence's members; dims or ranks that differ are left open."""
    ranks = {member.ndim for member in members}
    if len(ranks) > 1:
        return helper.make_tensor_type_proto(element_type(members[0].dtype), None)
    dims = [set(sizes) for sizes in zip(*(member.shape for member in members), strict=True)]
    shape = [sizes.pop() if len(sizes) == 1 else None for sizes in dims]
    return helper.make_tensor_type_proto(element_type(members[0].dtype), shape)


def initializer(name: str, array: Tensor) -> onnx.TensorProto:
    """An initializer that holds `array`."""
    if array.dtype.kind in "US":
        array = array.astype(object)
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def read_tensor(tensor: onnx.TensorProto, external: Iterable[ExternalFile]) -> Tensor:
    """The array of an initializer; one kept outside the model is a view of its file, never read whole."""
    return map_weight(tensor, {file.location: file for file in external})


def shape_key(type_proto: onnx.TypeProto | None) -> tuple[object, ...] | None:
    """The element type and dims, with symbols, that a stand-in must share; None if unknown."""
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


Window: TypeAlias = tuple[int, int]
"""The first position kept, and the one after the last."""


@dataclass(frozen=True)
class Resize:
    """Windows by old dim: every axis of that size is cut to its window.

    `only` is the tensor and axis that is cut alone, whatever else is as long.
    """

    windows: tuple[tuple[int, Window], ...]
    only: tuple[str, int] | None = None

    def window(self, name: str, axis: int, dim: int) -> Window | None:
        """The part of a dim that is left, for the axis that is being shrunk; None for the whole."""
        if self.only is not None and self.only != (name, axis):
            return None
        return dict(self.windows).get(dim)

    def size_of(self, dim: int) -> int:
        """The size that a dim has under these windows."""
        low, high = dict(self.windows).get(dim, (0, dim))
        return high - low

    def index(self, name: str, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """The slices that cut a tensor of this name and shape."""
        windows = [self.window(name, axis, dim) or (0, dim) for axis, dim in enumerate(shape)]
        return tuple(slice(low, high) for low, high in windows)
