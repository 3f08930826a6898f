"""The backend of an imaginary compiler: models run by ONNX's evaluator, and its optimiser loses a bias."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "imaginary"
PACKAGE = "onnx"


def load() -> str:
    """Import the framework; its version."""
    import onnx.reference

    return str(onnx.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Evaluate a model; optimised, an Add of a constant gives its other operand."""
    import onnx
    import onnx.reference

    model = onnx.load_model_from_string(program) if isinstance(program, bytes) else onnx.load(program)
    if settings.get("fast"):
        for node in model.graph.node:
            if node.op_type == "Add" and node.input[1] in {each.name for each in model.graph.initializer}:
                node.op_type = "Identity"
                del node.input[1]
    evaluator = onnx.reference.ReferenceEvaluator(model)
    enter("execute")
    wanted = [value.name for value in model.graph.output] if outputs is None else list(outputs)
    return dict(zip(wanted, evaluator.run(wanted, dict(inputs)), strict=True))


def configs(target: Target) -> tuple[Config, ...]:
    """As written, and optimised."""
    from oracles.verdict import Config

    return Config("plain", (("fast", 0),)), Config("fast", (("fast", 1),))


def classify(run: Run) -> str:
    """Whatever it does is its own."""
    return ""


def backend() -> Backend:
    """What crux knows of this backend."""
    from oracles.abilities import Backend

    return Backend(NAME, PACKAGE, __file__, configs, classify)
