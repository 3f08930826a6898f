"""Whether the values of a model fit the memory that a run may use, before anything is run."""

from __future__ import annotations

from onnx import ModelProto, TypeProto

from corpus.errors import UserError
from corpus.onnx_graph import tensors
from corpus.onnx_infer import graph_types, infer, untyped_copy
from corpus.onnx_types import dtype_name, memory_bytes


def check_limits(model: ModelProto, where: str, limit_bytes: int) -> None:
    """UserError when a weight, an input, or a declared or inferred value alone takes more than the limit.

    Symbolic and unknown dims count as 1: what they will be is not known here.
    """
    for tensor in tensors(model):
        _check(tensor.name, tensor.data_type, list(tensor.dims), where, limit_bytes)
    for types in (graph_types(model.graph), graph_types(infer(untyped_copy(model)).graph)):
        for name, declared in types.items():
            _check_type(name, declared, where, limit_bytes)


def _check_type(name: str, declared: TypeProto, where: str, limit_bytes: int) -> None:
    if declared.WhichOneof("value") == "optional_type":
        declared = declared.optional_type.elem_type
    if declared.WhichOneof("value") == "sequence_type":
        declared = declared.sequence_type.elem_type
    tensor = declared.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else 1 for dim in tensor.shape.dim]
    _check(name, tensor.elem_type, dims, where, limit_bytes)


def _check(name: str, code: int, dims: list[int], where: str, limit_bytes: int) -> None:
    size = memory_bytes(code, dims)
    if size > limit_bytes:
        shape = ",".join(map(str, dims[:8]))
        raise UserError(
            f"{where}: {name[:80]!r} is {dtype_name(code)}[{shape}], {size} bytes, over the memory limit of"
            f" {limit_bytes}; make it smaller or raise --memory"
        )
