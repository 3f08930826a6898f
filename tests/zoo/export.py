"""Writes the networks of the zoo by real exporters."""

import contextlib
import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

Dynamic = Mapping[int, str]


def export(
    net: nn.Module,
    arguments: Sequence[torch.Tensor],
    path: Path,
    *,
    dynamo: bool,
    opset: int = 18,
    free: Mapping[str, Dynamic],
) -> dict[str, np.ndarray]:
    """Write a network by torch's exporter and return its inputs by name.

    `dynamo` chooses `torch.export`'s way, else it is TorchScript's, where `free` dims stay symbolic.
    """
    names = [f"in{i}" for i in range(len(arguments))]
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        options = {} if dynamo else {"dynamic_axes": {k: dict(v) for k, v in free.items()}}
        torch.onnx.export(
            net.eval(), tuple(arguments), str(path), input_names=names, opset_version=opset,
            dynamo=dynamo, external_data=False, **options,
        )  # fmt: skip
    wanted = {value.name for value in onnx.load(path).graph.input}
    pairs = zip(names, arguments, strict=True)
    return {name: value.detach().numpy() for name, value in pairs if name in wanted}


def quantise(path: Path, target: Path, inputs: Mapping[str, np.ndarray], way: str) -> None:
    """Write the model as onnxruntime's quantiser does: `qdq`, `operators` or `dynamic`."""
    from onnxruntime import quantization as q

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        """Calibrates on the inputs themselves."""

        def __init__(self) -> None:
            self.left = [dict(inputs)]

        def get_next(self) -> dict[str, np.ndarray] | None:
            """The next batch, None at the end."""
            return self.left.pop() if self.left else None

    logging.getLogger().setLevel(logging.ERROR)
    if way == "dynamic":
        q.quantize_dynamic(path, target)
        return
    form = q.QuantFormat.QDQ if way == "qdq" else q.QuantFormat.QOperator
    q.quantize_static(path, target, Reader(), quant_format=form, per_channel=way == "qdq")
