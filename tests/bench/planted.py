"""A small compiler of ONNX graphs with planted faults: rewrites that are wrong, over onnx's own evaluator.

A backend like any other. Its optimiser has three passes, `Simplify`, `Layout` and `Fuse`, which can be
disabled by name; each holds several rewrites, so that a pass alone does not say which fault was met.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # a worker is started without it

from tests.bench.planted_rewrites import FAULTS, Graph

if TYPE_CHECKING:
    from collections.abc import Set

    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "planted"
PACKAGE = "onnx"
DISABLED_BY = "`{}`"
APPLIED = "planted: applied "
PASSES = tuple(dict.fromkeys(fault.within for fault in FAULTS))


# In the worker


def load() -> str:
    import onnx.reference

    return str(onnx.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Rewrite one model where that is asked for, and evaluate it."""
    import onnx.reference

    from oracles.worker.onnx import read_model, to_array

    model = read_model(program)
    enter("optimise")
    if settings.get("level") == "all":
        for name in PASSES:
            if name not in settings.get("disabled_optimizers", ()) and apply(model.graph, name):
                os.write(2, f"{APPLIED}{name}\n".encode())
    enter("execute")
    evaluator = onnx.reference.ReferenceEvaluator(model)
    wanted = [value.name for value in model.graph.output] if outputs is None else list(outputs)
    values = evaluator.run(wanted, {name: to_array(value) for name, value in inputs.items()})
    return {name: values[index] for index, name in enumerate(wanted)}


def apply(graph: Any, within: str) -> bool:
    """One pass over the graph; whether it changed anything."""
    changed = False
    for node in list(graph.node):
        for fault in FAULTS:
            if fault.within == within and fault.operator == node.op_type:
                changed |= fault.rewrite(Graph(graph), node)
    return changed


# In crux


def configs(target: Target) -> tuple[Config, ...]:
    from oracles.verdict import Config

    return tuple(Config(level, (("level", level),)) for level in ("none", "all"))


def classify(run: Run) -> str:
    return ""


def fired(run: Run) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(rf"{APPLIED}(\w+)", "\n".join(run.log))))


def suspects(run: Run) -> tuple[str, ...]:
    return fired(run)


def optimizers(run: Run) -> tuple[str, ...]:
    return PASSES


def likely(names: Iterable[str], operators: Set[str]) -> tuple[str, ...]:
    return tuple(names)


def backend() -> Backend:
    """What crux knows of this backend."""
    from oracles.abilities import Backend, Passes

    passes = Passes(DISABLED_BY, fired, suspects, optimizers, likely, "disabled_optimizers")
    return Backend(NAME, PACKAGE, __file__, configs, classify, passes=passes)
