"""ONNX models."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, OptionalProto, SequenceProto, TensorProto, numpy_helper

from corpus.errors import UserError
from corpus.format import Format
from corpus.onnx.canonical import canonical, measure
from corpus.onnx.client import begin
from corpus.onnx.graph import initializer_names
from corpus.onnx.inputs import make_inputs
from corpus.onnx.model_file import (
    check_limits,
    check_text,
    external_files,
    parse_model,
    read_model_bytes,
    relocate,
)
from corpus.onnx.text import print_text
from corpus.onnx.types import DTYPES, STRING, input_type, is_external, packed_bytes
from corpus.reading import read_bytes
from corpus.values import InputType, Tensor, Value, fit_value

_NAME = re.compile(r"input_(\d+)\.pb")


def read_test_data(folder: Path, types: Mapping[str, InputType], memory_bytes: int) -> dict[str, Value]:
    """The inputs in the folder, by number; UserError where one is missing, damaged or does not fit."""
    required = [name for name, declared in types.items() if declared.required]
    numbers = sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))
    names = list(types) if len(numbers) > len(required) else required
    if len(numbers) < len(required):
        raise UserError(
            f"{folder}: no input {required[len(numbers)]!r} ({len(numbers)} of {len(required)} input_*.pb);"
            " add it, or remove the folder to have values made from the seed"
        )
    inputs: dict[str, Value] = {}
    for number, name in zip(numbers, names, strict=False):
        path = folder / f"input_{number}.pb"
        inputs[name] = fit_value(name, _read(path, types[name], memory_bytes), types[name], str(path))
    return inputs


def _read(path: Path, declared: InputType, memory_bytes: int) -> Value:
    data = read_bytes(path, memory_bytes, "give smaller inputs or raise --memory")
    try:
        if declared.optional:
            optional = OptionalProto.FromString(data)
            if optional.elem_type == OptionalProto.UNDEFINED:
                return None
            if optional.HasField("sequence_value"):
                return _sequence(optional.sequence_value)
            return _tensor(optional.tensor_value)
        if declared.sequence:
            return _sequence(SequenceProto.FromString(data))
        return _tensor(TensorProto.FromString(data))
    except (DecodeError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        reason = " ".join(str(error).split())[:120]
        raise UserError(f"{path}: not a readable value ({reason}); write the test data again") from error


def _sequence(sequence: SequenceProto) -> list[Tensor]:
    return [_tensor(tensor) for tensor in sequence.tensor_values]


def _tensor(tensor: TensorProto) -> Tensor:
    if is_external(tensor) or tensor.data_type not in DTYPES:
        raise ValueError("external data, or an unknown type")
    expected = packed_bytes(tensor.data_type, tensor.dims)
    if tensor.HasField("raw_data") and len(tensor.raw_data) != expected:
        raise ValueError(f"{len(tensor.raw_data)} bytes where its dims take {expected}")
    array = numpy_helper.to_array(tensor)
    return np.asarray(array, dtype=np.str_) if tensor.data_type == STRING else array


__all__ = ["FORMAT", "check", "input_types", "parse"]


def parse(program: bytes, where: str = "model") -> ModelProto:
    """The model, without its external data; UserError when it is none or has no graph."""
    return parse_model(program, where)


def check(model: ModelProto, where: str, memory_bytes: int) -> None:
    """UserError for names that are no text, and for weights or values that cannot fit the memory."""
    check_text(model, where)
    check_limits(model, where, memory_bytes)


def input_types(model: ModelProto, where: str) -> dict[str, InputType]:
    """Map each input of the model to its type, in order; an input with an initializer is not required.

    Raises UserError for an input that no array holds. An input without any type makes the model invalid and
    is left out: the checker and the backend judge that.
    """
    defaults = initializer_names(model.graph)
    types: dict[str, InputType] = {}
    for value in model.graph.input:
        found = input_type(value.type, required=value.name not in defaults)
        if found is not None:
            types[value.name] = found
        elif value.type.WhichOneof("value") in ("map_type", "sparse_tensor_type", "opaque_type"):
            kind = value.type.WhichOneof("value").removesuffix("_type")
            raise UserError(f"{where}: input {value.name!r} is a {kind}, which no inputs.npz can hold")
    return types


FORMAT = Format(
    name="onnx",
    program_file="model.onnx",
    suffixes=(".onnx",),
    target="ort",
    read_program=read_model_bytes,
    parse=parse,
    check=check,
    input_types=input_types,
    make_inputs=make_inputs,
    canonical=canonical,
    measure=measure,
    print_text=print_text,
    external_files=external_files,
    relocate=relocate,
    read_test_data=read_test_data,
    begin=begin,
)
"""Nothing is called outside: operators are the runtime's own, libraries of others are never loaded."""
