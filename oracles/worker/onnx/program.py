"""Reading an ONNX program in a worker that has `onnx`."""

from __future__ import annotations

import os
from typing import Any


def read_model(program: Any) -> Any:
    """The ModelProto of a program (bytes or a path), its external data put into it."""
    import onnx

    if isinstance(program, str):
        model = onnx.load(program, load_external_data=False)
        read_external_data(model, os.path.dirname(program))
    else:
        model = onnx.load_model_from_string(program)
        read_external_data(model, ".")
    return model


def read_external_data(model: Any, folder: str) -> None:
    """Put the external data into the model; `onnx` itself refuses files that are hard links."""
    from onnx import external_data_helper as external

    for tensor in external._get_all_tensors(model):
        if external.uses_external_data(tensor):
            info: Any = external.ExternalDataInfo(tensor)
            with open(os.path.join(folder, info.location), "rb") as file:
                file.seek(info.offset or 0)
                tensor.raw_data = file.read(info.length or -1)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")


def fed_names(graph: Any) -> list[str]:
    """The names of the graph's inputs that are no initializers, in order."""
    weights = {tensor.name for tensor in graph.initializer}
    return [value.name for value in graph.input if value.name not in weights]


def to_array(value: Any) -> Any:
    """The types that numpy lacks come as (name, bits); here they are arrays of ml_dtypes'."""
    if isinstance(value, list):
        return [to_array(item) for item in value]
    if isinstance(value, tuple):
        import ml_dtypes

        return value[1].view(getattr(ml_dtypes, value[0]))
    return value
