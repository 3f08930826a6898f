"""Weights of an ONNX model that stand in other files, or that are too large to copy about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from corpus.errors import UserError
from corpus.external import ExternalFile, find_external
from corpus.onnx.graph import tensors
from corpus.onnx.infer import is_external, light_copy
from corpus.onnx.types import DTYPES, packed_bytes
from corpus.values import Tensor


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


def external_entry(tensor: TensorProto, key: str, default: str = "") -> str:
    """One of `location`, `offset`, `length`, `checksum` of an external tensor."""
    return next((entry.value for entry in tensor.external_data if entry.key == key), default)


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
    whole = ModelProto()
    whole.CopyFrom(model)
    for tensor in filter(is_external, tensors(whole)):
        tensor.CopyFrom(numpy_helper.from_array(np.array(map_weight(tensor, by_location)), tensor.name))
    return whole


def strip_weights(model: ModelProto) -> ModelProto:
    """The model's structure: initializers over `SMALL_BYTES`, and external ones, become inputs of their type.

    The result needs none of the model's files. External weights of nested bodies become zeros.
    """
    stripped = light_copy(model)
    stripped.graph.value_info.extend(model.graph.value_info)
    return stripped
