"""Reading a model's file without trusting it: what cannot be a model is refused before it is read.

A protobuf message is a chain of fields (tag, then a number or a length and that many bytes). Stepping over
the chain at the top level shows text, zeros and truncation at the cost of a few pages, whatever the size.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path, PurePosixPath

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, numpy_helper

from corpus.errors import UserError
from corpus.onnx.graph import function_key, tensors, walk_all_graphs, walk_function, walk_model, walk_nodes
from corpus.onnx.types import (
    DTYPES,
    dtype_name,
    graph_types,
    infer,
    is_external,
    memory_bytes,
    packed_bytes,
    untyped_copy,
)
from corpus.reading import ExternalFile, find_external
from corpus.values import Tensor

MAX_BYTES = (1 << 31) - 1
"""The largest message that protobuf reads."""

_MAX_FIELD = 1000
_MAX_STEPS = 1_000_000
_MAX_VERSION = (1 << 31) - 1
"""onnx's own functions take an `int`."""


def read_model_bytes(path: Path, memory_bytes: int) -> bytes:
    """The bytes of a file that may hold a model; UserError when it surely does not."""
    try:
        size = path.stat().st_size if path.is_file() else -1
        if size < 0:
            raise UserError(f"{path}: not a regular file; give a .onnx file or a case folder")
        if size == 0:
            raise UserError(f"{path}: empty, so no ONNX model; export the model again")
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            _check_chain(view, path)
            _check_size(size, path, memory_bytes)
            return view[:]
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error


def parse_model(program: bytes, where: str) -> onnx.ModelProto:
    """The model, external data left where it is; UserError when it cannot be parsed or has no graph."""
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(program)
    except DecodeError as error:
        raise UserError(
            f"{where}: not a readable ONNX model (damaged or truncated); export it again"
        ) from error
    if not model.HasField("graph"):
        raise UserError(f"{where}: an ONNX model without a graph; export it again")
    return model


def check_text(model: onnx.ModelProto, where: str) -> None:
    """UserError for a name that is not UTF-8: protobuf hands it out as bytes, and no tool can print it."""
    for text in _texts(model):
        if not isinstance(text, str):
            raise UserError(f"{where}: the name {text!r:.60} is not UTF-8; export the model again")


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    """Yield every string that names something; documentation is not among them."""
    for opset in model.opset_import:
        yield opset.domain
    for function in model.functions:
        yield from (function.name, function.domain, function.overload, *function.input, *function.output)
    for node in walk_model(model):
        yield from (node.op_type, node.domain, node.name, node.overload, *node.input, *node.output)
        yield from (
            text for attribute in node.attribute for text in (attribute.name, attribute.ref_attr_name)
        )
    for graph in walk_all_graphs(model):
        yield graph.name
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield value.name
            yield from _dim_names(value.type)
    for tensor in tensors(model):
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


def _dim_names(declared: onnx.TypeProto) -> Iterator[object]:
    match declared.WhichOneof("value"):
        case "tensor_type":
            yield from (dim.dim_param for dim in declared.tensor_type.shape.dim)
        case "sequence_type":
            yield from _dim_names(declared.sequence_type.elem_type)
        case "optional_type":
            yield from _dim_names(declared.optional_type.elem_type)


def _check_size(size: int, path: Path, memory_bytes: int) -> None:
    if size > MAX_BYTES:
        raise UserError(f"{path}: {size} bytes, over protobuf's 2 GiB; keep the weights as external data")
    if size > memory_bytes:
        raise UserError(
            f"{path}: {size} bytes, over the memory limit; raise --memory or keep the weights as external"
            " data"
        )


def _check_chain(view: mmap.mmap, path: Path) -> None:
    position, steps = 0, 0
    while position < len(view):
        following = _step(view, position)
        steps += 1
        if following is None or steps > _MAX_STEPS:
            what = "not an ONNX model" if steps < 3 else "a damaged ONNX model"
            raise UserError(f"{path}: {what} (nothing readable at byte {position}); give a .onnx file")
        if following > len(view):
            raise UserError(
                f"{path}: truncated: {following - len(view)} bytes are missing at its end, or it is no ONNX"
                " model; export or copy it again"
            )
        position = following


def _step(view: mmap.mmap, position: int) -> int | None:
    """The position after the field at `position`; None if there is no field."""
    tag, position = _varint(view, position)
    if not 1 <= tag >> 3 <= _MAX_FIELD:
        return None
    match tag & 7:
        case 0:
            number, position = _varint(view, position)
            return None if number < 0 else position
        case 1:
            return position + 8
        case 2:
            length, position = _varint(view, position)
            return None if length < 0 else position + length
        case 5:
            return position + 4
        case _:
            return None


def _varint(view: mmap.mmap, position: int) -> tuple[int, int]:
    """A number and where it ends; -1 when it is longer than ten bytes or ends with the file."""
    number = 0
    for index in range(10):
        if position + index >= len(view):
            return -1, position
        byte = view[position + index]
        number |= (byte & 127) << (7 * index)
        if byte < 128:
            return number, position + index + 1
    return -1, position


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
    for opset in (each for holder in (model, *model.functions) for each in holder.opset_import):
        if abs(opset.version) > _MAX_VERSION:
            raise UserError(f"{where}: no release has opset {opset.version}; export the model again")
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


def external_files(model: ModelProto, folder: Path, where: str) -> tuple[ExternalFile, ...]:
    """The files that the model's tensors refer to, in order of first use, each once.

    UserError when one is absent, leaves the folder, or is shorter than a tensor needs.
    """
    found: dict[str, ExternalFile] = {}
    for tensor in tensors(model):
        if is_external(tensor):
            location = external_entry(tensor, "location")
            if location not in found:
                found[location] = find_external(location, folder, where)
            _check_extent(tensor, found[location], where)
    return tuple({file.location: file for file in found.values()}.values())


def relocate(program: bytes, places: Mapping[str, str]) -> bytes:
    """The program with other locations of its external tensors, by those that `external_files` gives."""
    model = ModelProto.FromString(program)
    for tensor in filter(is_external, tensors(model)):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = places[str(PurePosixPath(entry.value))]
    moved: bytes = model.SerializeToString(deterministic=True)
    return moved


def external_entry(tensor: TensorProto, key: str) -> str:
    """One of `location`, `offset`, `length`, `checksum` of an external tensor; empty where it says none."""
    return next((entry.value for entry in tensor.external_data if entry.key == key), "")


def external_extent(tensor: TensorProto) -> tuple[int, int | None]:
    """Offset and length in the file, in bytes; a length that is not given follows from type and dims."""
    offset = int(external_entry(tensor, "offset") or 0)
    length = external_entry(tensor, "length")
    return offset, int(length) if length else packed_bytes(tensor.data_type, tensor.dims)


def _check_extent(tensor: TensorProto, file: ExternalFile, where: str) -> None:
    refused = f"{where}: external data of {tensor.name[:80]!r} in {file.location!r}"
    try:
        offset, length = external_extent(tensor)
    except ValueError as error:
        raise UserError(f"{refused} has no sound offset and length; export the model again") from error
    if offset < 0 or (length or 0) < 0 or offset + (length or 0) > file.size:
        raise UserError(
            f"{refused} lies outside the file ({file.size} bytes; offset {offset}, length {length});"
            " copy the file again or export the model again"
        )


def map_weight(tensor: TensorProto, files: dict[str, ExternalFile]) -> Tensor:
    """The value of a tensor; an external one of whole bytes an element as a view of its file, not in memory.

    `files` maps locations to files, as `external_files` gives them. Raises `UserError` for one that does not
    hold what its type and dims say.
    """
    try:
        return _mapped(tensor, files)
    except (ValueError, TypeError, LookupError) as error:
        raise UserError(
            f"weight {tensor.name[:80]!r}: does not hold what its type and dims say"
            f" ({type(error).__name__}: {error}); export the model again"
        ) from error


def _mapped(tensor: TensorProto, files: dict[str, ExternalFile]) -> Tensor:
    if not is_external(tensor):
        return numpy_helper.to_array(tensor)
    file = files[str(Path(external_entry(tensor, "location")))]
    offset, length = external_extent(tensor)
    raw = np.memmap(file.path, np.uint8, "r", offset, (length or 0,)) if length else np.zeros(0, np.uint8)
    dtype = DTYPES[tensor.data_type]
    if (length or 0) == dtype.itemsize * int(np.prod(tensor.dims, dtype=object)):
        return raw.view(dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype).reshape(
            tuple(tensor.dims)
        )
    inline = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=raw.tobytes())
    return numpy_helper.to_array(inline)


def with_weights(model: ModelProto, files: Iterable[ExternalFile]) -> ModelProto:
    """The model with what lies in those files held by itself; the model itself where nothing does."""
    if not any(map(is_external, tensors(model))):
        return model
    by_location = {file.location: file for file in files}
    whole = deepcopy(model)
    for tensor in filter(is_external, tensors(whole)):
        tensor.CopyFrom(numpy_helper.from_array(np.array(map_weight(tensor, by_location)), tensor.name))
    return whole
