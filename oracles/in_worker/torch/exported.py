"""A torch module as an ONNX model by torch's own exporters, and that model run by onnxruntime as it is."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import onnxruntime
import torch

from oracles.in_worker.torch.tensors import Unsupported, from_torch


def export(module: Any, feeds: list[Any], exporter: str) -> bytes:
    """Return the model's bytes; what the exporter has no words for it raises."""
    file = io.BytesIO()
    names = [f"x{place}" for place in range(len(feeds))]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        if exporter == "torchscript":
            torch.onnx.export(module, tuple(feeds), file, dynamo=False, input_names=names, verbose=False)
            return file.getvalue()
        made = torch.onnx.export(module, tuple(feeds), dynamo=True, input_names=names, verbose=False)
        made.save(file)
    return file.getvalue()


def run_exported(model: bytes, feeds: list[Any]) -> list[Any]:
    """Return the model's outputs, in order; an input that the exporter left out is not fed."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    taken = {item.name for item in session.get_inputs()}
    given = {f"x{place}": fed(each) for place, each in enumerate(feeds)}
    found: list[Any] = session.run(None, {name: value for name, value in given.items() if name in taken})
    return found


def fed(tensor: Any) -> Any:
    """Return the array of a tensor."""
    value = from_torch(tensor)
    if isinstance(value, tuple):
        raise Unsupported(f"onnxruntime takes no {value[0]} from numpy")
    return value
