"""Objects of frameworks that a caller hands in as models, as files that crux opens.

Only a framework that the caller has imported can have made one, so nothing is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import UserError


def write_onnx(model: Any, inputs: Any, folder: Path) -> tuple[str, bool] | None:
    """An `onnx.ModelProto`, or its bytes."""
    onnx: Any = sys.modules.get("onnx")
    if isinstance(model, bytes):
        content = model
    elif onnx is not None and isinstance(model, onnx.ModelProto):
        content = model.SerializeToString(deterministic=True)
    else:
        return None
    (folder / "model.onnx").write_bytes(content)
    return str(folder / "model.onnx"), False


def write_torch(model: Any, inputs: Any, folder: Path) -> tuple[str, bool] | None:
    """A module, exported with its positional inputs, or an exported program."""
    torch: Any = sys.modules.get("torch")
    is_module = torch is not None and isinstance(model, torch.nn.Module)
    if type(model).__module__.split(".")[0] != "torch" and not is_module:
        return None
    if is_module:
        if inputs is None or isinstance(inputs, Mapping | Path | str):
            raise UserError("a torch module needs the tensors that it is called with: give them as a tuple")
        model = torch.export.export(model, tuple(inputs))
    path = folder / "model.pt2"
    torch.export.save(model, path)
    return str(path), True


WRITERS = (write_torch, write_onnx)
"""Each gives a file's path in the folder and whether opening it needs trust; None for another's object."""
