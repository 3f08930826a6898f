"""Relax programs in numpy, floats in float64: slow, and what TVM's results are held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "golden"
PACKAGE = "numpy"
LEFT_OPEN = "LeftOpen"
"""The exception whose message says what the program leaves open."""

# In the worker


def load() -> str:
    """Import the rules (in the zygote); numpy's version."""
    import numpy

    import oracles.worker.relax_reference.program  # noqa: F401 (here, so that no worker has to)

    return str(numpy.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Evaluate one program; NotKnown for what the rules leave out."""
    import json

    from oracles.worker.onnx import to_array
    from oracles.worker.relax_reference.program import Evaluation

    document = json.loads(program)
    enter("execute")
    values = Evaluation(document, outside).main({name: to_array(value) for name, value in inputs.items()})
    named = dict(zip(document["main"]["outputs"], values, strict=True))
    return {name: _told(named[name]) for name in (named if outputs is None else outputs)}


def outside(item: Any) -> Callable[..., Any]:
    """A callable for a PrimFunc: a formula, or a tree, which the interpreter of `oracles/tir` runs.

    This backend is crux's own and runs in its Python, so that it may import the interpreter.
    """
    from oracles.worker.relax_reference.program import computed, wide
    from oracles.worker.relax_reference.rule import NotKnown

    if not isinstance(item, dict) or "tir" not in item:
        return computed(item)
    _share_corpus()
    from corpus.graphs.program import primfunc_of
    from oracles.tir.interpreter import NotDefined, called

    function = primfunc_of(item).function

    def call(*operands: Any) -> Any:
        try:
            found = [wide(value) for value in called(function, operands)]
        except NotDefined as error:
            raise NotKnown(str(error)) from error
        return found[0] if len(found) == 1 else tuple(found)

    return call


def _share_corpus() -> None:
    """Let the interpreter import `corpus`, which lies beside `oracles`; a worker's path does not hold it."""
    import os
    import sys
    import types

    package = types.ModuleType("corpus")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    package.__path__ = [os.path.join(root, "corpus")]
    sys.modules.setdefault("corpus", package)


def _told(value: Any) -> Any:
    """A shape and a number stand for tensors of int64, as the machine's own do; a tuple is a sequence."""
    import numpy as np

    if isinstance(value, tuple) and any(isinstance(each, np.ndarray) for each in value):
        return [_told(each) for each in value]
    return value if isinstance(value, np.ndarray) else np.array(value, dtype="int64")


# In crux


def configs(target: Target) -> tuple[Config, ...]:
    """One way only: there is nothing to optimise."""
    from oracles.verdict import Config

    return (Config("golden"),)


def classify(run: Run) -> str:
    """The rules leave out operators and forms, and say so."""
    return (
        "unsupported" if not run.is_ok and run.error in ("NotKnown", LEFT_OPEN, "NotImplementedError") else ""
    )


def backend() -> Backend:
    """Describe this backend."""
    from oracles.abilities import Backend, Graphs

    return Backend(NAME, PACKAGE, __file__, configs, classify, graphs=(Graphs(("relax",)),))
