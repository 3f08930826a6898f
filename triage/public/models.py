"""What a program of the user's may hand in as a model, and how it becomes a case."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypedDict

import numpy as np
import onnx

from corpus.case import Case
from corpus.errors import UserError
from corpus.values import Value, write_inputs
from triage.cases.judging import Judges
from triage.cases.sources import open_one
from triage.console.options import CaseOptions

Model: TypeAlias = str | Path | bytes | onnx.ModelProto | Case | Any
"""A path (or an id of the database), the bytes of an ONNX model, the model, a case; or an `nn.Module` or
`ExportedProgram` of the torch that the caller has imported."""

Inputs: TypeAlias = Mapping[str, Any] | Sequence[Any] | Path | None
"""Values by input name, positional ones of a torch module, an .npz file, or None: made from the seed."""


class Settings(TypedDict, total=False):
    """Settings that all functions take by name; the command line's options of these names say the same.

    `timeout` is in CPU seconds and `memory` in MB, both for one run. `tolerance` is `auto`: crux chooses,
    unless `rtol` or `atol` are given. `trust` lets files that run code be opened; `db` is the database that
    ids refer to.
    """

    seed: int
    jobs: int
    timeout: float
    memory: int
    tolerance: str
    rtol: float
    atol: float
    oracles: str
    accept_invalid: bool
    trust: bool
    db: Path


@contextmanager
def opened(
    model: Model, inputs: Inputs, target: str | None, settings: Settings
) -> Iterator[tuple[Case, Judges]]:
    """The case, its target settled, and judges to run it; they are closed at the end.

    Raises `UserError` where the model, the inputs or the target cannot be used.
    """
    with TemporaryDirectory(prefix="crux-model-") as name:
        word, is_trusted = _written(model, inputs, Path(name))
        given = CaseOptions(target=target, inputs=_file_of(inputs, Path(name)))
        options = replace(given, **settings)
        options = replace(options, trust=True) if is_trusted else options
        with Judges(options) as judges:
            case = open_one(word, options, judges)
            yield (replace(case, origin="") if word.startswith(name) else case), judges


def _written(model: Model, inputs: Inputs, folder: Path) -> tuple[str, bool]:
    """The word that names the model on the command line, and whether opening it needs trust."""
    if isinstance(model, str | Path):
        return str(model), False
    if isinstance(model, Case):
        model.save(folder / "case")
        return str(folder / "case"), False
    if type(model).__module__.split(".")[0] == "torch" or _is_module(model):
        return _exported(model, inputs, folder), True
    content = model if isinstance(model, bytes) else _bytes_of(model)
    (folder / "model.onnx").write_bytes(content)
    return str(folder / "model.onnx"), False


def _bytes_of(model: Model) -> bytes:
    if not isinstance(model, onnx.ModelProto):
        raise UserError(
            f"a {type(model).__name__} is no model; give a path, bytes, an onnx.ModelProto, a Case"
            " or a torch module"
        )
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _is_module(model: Model) -> bool:
    """Return whether it is a module of the torch that the caller has imported; crux itself imports none."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _exported(model: Model, inputs: Inputs, folder: Path) -> str:
    """Return a torch module exported with these positional inputs, or an exported program, as a file."""
    torch: Any = sys.modules["torch"]
    if isinstance(model, torch.nn.Module):
        if inputs is None or isinstance(inputs, Mapping | Path | str):
            raise UserError("a torch module needs the tensors that it is called with: give them as a tuple")
        model = torch.export.export(model, tuple(inputs))
    path = folder / "model.pt2"
    torch.export.save(model, path)
    return str(path)


def _file_of(inputs: Inputs, folder: Path) -> Path | None:
    """Return the inputs as the .npz that `--inputs` takes; a module's were exported with it."""
    if isinstance(inputs, str | Path):
        return Path(inputs)
    if not isinstance(inputs, Mapping):
        return None
    path = folder / "inputs.npz"
    write_inputs(path, {name: _value(value) for name, value in inputs.items()})
    return path


def _value(value: Any) -> Value:
    """A list is a sequence of tensors, None an absent optional, all else a tensor."""
    if value is None:
        return None
    return [np.asarray(each) for each in value] if isinstance(value, list) else np.asarray(value)
