"""A compiler of the toy language, which takes `abs(neg(x))` for `neg(x)` when it optimises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "toy"
PACKAGE = "numpy"


def load() -> str:
    """The version of numpy."""
    import numpy as np

    return str(np.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Apply one operator after the other."""
    import json

    import numpy as np

    operators = {"neg": np.negative, "abs": np.abs, "double": lambda x: x + x, "half": lambda x: x / 2}
    enter("execute")
    value, before = inputs["x"], ""
    for op in json.loads(program)["ops"]:
        if not (settings.get("fast") and (before, op) == ("neg", "abs")):
            value = operators[op](value)
        before = op
    return {"out": value}


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

    return Backend(NAME, PACKAGE, __file__, configs, classify, formats=("toy",))
