"""ONNX's own evaluator in Python: slow, and what a result is compared with when two disagree."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.run import Config, Run

NAME = "reference"
PACKAGE = "onnx"

# In the worker


def load() -> str:
    """Import the framework (in the zygote); its version."""
    import onnx.reference

    return str(onnx.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Evaluate one model (bytes or a path); its import is all that comes before the execution."""
    import onnx.reference

    if isinstance(program, str):
        model = onnx.load(program, load_external_data=False)
        read_external_data(model, os.path.dirname(program))
    else:
        model = onnx.load_model_from_string(program)
        read_external_data(model, ".")
    evaluator = onnx.reference.ReferenceEvaluator(model)
    enter("execute")
    wanted = [value.name for value in model.graph.output] if outputs is None else list(outputs)
    values = evaluator.run(wanted, {name: to_array(value) for name, value in inputs.items()})
    return {name: values[index] for index, name in enumerate(wanted)}


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


def to_array(value: Any) -> Any:
    """The evaluator takes the types that numpy lacks as ml_dtypes' arrays."""
    if isinstance(value, list):
        return [to_array(item) for item in value]
    if isinstance(value, tuple):
        import ml_dtypes

        return value[1].view(getattr(ml_dtypes, value[0]))
    return value


# In crux

UNSUPPORTED = re.compile(
    r"No implementation|[Nn]ot implemented|[Uu]nsupported|not supported|Unable to find an impl"
)
ERRORS = ("NotImplementedError", "RuntimeImplementationError", "RuntimeContextError")


def configs(target: Target) -> tuple[Config, ...]:
    """One way only: there is nothing to optimise."""
    from oracles.run import Config

    return (Config("reference"),)


def classify(run: Run) -> str:
    """The evaluator lacks operators and types, and says so."""
    if run.is_ok:
        return ""
    return "unsupported" if run.error in ERRORS or UNSUPPORTED.search(run.message) else ""
