"""ONNX's own evaluator in Python: slow, and what a result is compared with when two disagree."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "reference"
PACKAGE = "onnx"

# In the worker


def load() -> str:
    """Import the framework (in the zygote); its version."""
    import onnx.parser
    import onnx.printer
    import onnx.reference

    return str(onnx.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Evaluate one model (bytes or a path); its import is all that comes before the execution.

    With the setting `via` it is written as `text` or `bytes` and read back before.
    """
    import onnx.parser
    import onnx.printer

    from oracles.worker.onnx import evaluator_of, read_model, to_array

    model = read_model(program)
    if settings.get("via") == "text":
        model = onnx.parser.parse_model(onnx.printer.to_text(model))
    elif settings.get("via") == "bytes":
        model = onnx.load_model_from_string(model.SerializeToString())
    evaluator = evaluator_of(model)
    enter("execute")
    wanted = [value.name for value in model.graph.output] if outputs is None else list(outputs)
    values = evaluator.run(wanted, {name: to_array(value) for name, value in inputs.items()})
    return {name: values[index] for index, name in enumerate(wanted)}


# In crux

UNSUPPORTED = re.compile(
    r"No implementation|[Nn]ot implemented|[Uu]nsupported|not supported|Unable to find an impl"
)
ERRORS = ("NotImplementedError", "RuntimeImplementationError", "RuntimeContextError")


def configs(target: Target) -> tuple[Config, ...]:
    """One way only: there is nothing to optimise."""
    from oracles.verdict import Config

    return (Config("reference"),)


def classify(run: Run) -> str:
    """The evaluator lacks operators and types, and says so."""
    if run.is_ok:
        return ""
    return "unsupported" if run.error in ERRORS or UNSUPPORTED.search(run.message) else ""


def backend() -> Backend:
    """Describe this backend."""
    from oracles.abilities import Backend

    return Backend(NAME, PACKAGE, __file__, configs, classify, written_as=("text", "bytes"))
