"""ONNX models."""

from __future__ import annotations

from onnx import ModelProto

from corpus.errors import UserError
from corpus.format import Format
from corpus.onnx.canonical import canonical
from corpus.onnx.client import begin
from corpus.onnx.graph import initializer_names
from corpus.onnx.inputs import make_inputs
from corpus.onnx.measure import measure
from corpus.onnx.model_file import check_limits, check_text, parse_model, read_model_bytes
from corpus.onnx.test_data import read_test_data
from corpus.onnx.text import print_text
from corpus.onnx.types import input_type
from corpus.onnx.weights import external_files, relocate
from corpus.values import InputType

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
