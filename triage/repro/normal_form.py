"""Models in one form, so that two encodings of the same model are equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import TensorProto

DATA_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


def normal_form(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with all weights as raw bytes and without fields that only spell out their default."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for message in messages(copy):
        if isinstance(message, TensorProto):
            _to_raw(message)
        for field, value in message.ListFields():
            is_scalar = field.message_type is None and not field.is_repeated
            if is_scalar and field.containing_oneof is None and value == field.default_value:
                message.ClearField(field.name)
    return copy


def messages(message: Any) -> Iterator[Any]:
    """Yield a protobuf message and all messages in it, the outer ones first."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                yield from messages(each)


def _to_raw(tensor: TensorProto) -> None:
    if any(len(getattr(tensor, field)) for field in DATA_FIELDS):
        raw = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
        for field in DATA_FIELDS:
            tensor.ClearField(field)
        tensor.raw_data = raw
