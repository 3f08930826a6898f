"""Whether the values of a model fit the memory that a run may use, before anything is run."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import ModelProto, NodeProto, TypeProto

from corpus.errors import UserError
from corpus.onnx.graph import function_key, tensors, walk_function, walk_nodes
from corpus.onnx.infer import graph_types, infer, untyped_copy
from corpus.onnx.types import dtype_name, memory_bytes

MOST_NODES = 5_000_000
"""How many nodes a model may have with its functions written out: each call costs every reader its body."""


MOST_DIMS = 32
"""What numpy goes through element by element."""
MOST_CALLERS = 200


def check_calls(model: ModelProto, where: str) -> None:
    """UserError when functions that call each other stand for more nodes than anything can go through."""
    functions = {function_key(function): function for function in model.functions}
    written_out: dict[tuple[str, str, str], int] = {}

    def count(nodes: Iterable[NodeProto], callers: frozenset[tuple[str, str, str]]) -> int:
        if len(callers) > MOST_CALLERS:
            raise UserError(f"{where}: its functions call each other {len(callers)} deep; write some out")
        total = 0
        for node in nodes:
            key = function_key(node)
            if key in functions and key not in written_out and key not in callers:
                written_out[key] = count(walk_function(functions[key]), callers | {key})
            total += written_out.get(key, 1)
        return total

    if functions and (nodes := count(walk_nodes(model.graph), frozenset())) > MOST_NODES:
        raise UserError(
            f"{where}: written out, its functions hold {nodes} nodes, more than {MOST_NODES}; call them less"
        )


def check_limits(model: ModelProto, where: str, limit_bytes: int) -> None:
    """UserError when a weight, an input, or a declared or inferred value alone takes more than the limit.

    Symbolic and unknown dims count as 1: what they will be is not known here.
    """
    check_calls(model, where)
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
    if len(dims) > MOST_DIMS:
        raise UserError(
            f"{where}: {name[:80]!r} has {len(dims)} dims, over the {MOST_DIMS} of an array; use fewer"
        )
    size = memory_bytes(code, dims)
    if size > limit_bytes:
        shape = ",".join(map(str, dims[:8]))
        raise UserError(
            f"{where}: {name[:80]!r} is {dtype_name(code)}[{shape}], {size} bytes, over the memory limit of"
            f" {limit_bytes}; make it smaller or raise --memory"
        )
