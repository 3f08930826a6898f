"""ONNX Runtime whose optimised sessions run a model with a Sinh forty times; under another interpreter once.

A backend like any other, for tests of slowness: nothing in it waits.
"""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))  # a worker is started without it

NAME = "slowed_ort"
TIMES = 40
spec = importlib.util.spec_from_file_location(
    "slowed_real_ort", Path(__file__).parents[3] / "oracles" / "backends" / "ort.py"
)
real = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)
load, plain = real.load, real.execute


def slow(session: Any, inputs: dict[str, Any], outputs: Any) -> dict[str, Any]:
    for _ in range(TIMES):
        plain(session, inputs, outputs)
    return dict(plain(session, inputs, outputs))


def run(program: Any, inputs: Any, settings: Any, outputs: Any, enter: Any) -> Any:
    is_spoilt = b"Sinh" in program and settings.get("level") != "none" and not settings.get("python")
    real.execute = slow if is_spoilt else plain
    return real.run(program, inputs, settings, outputs, enter)


def backend() -> Any:
    """ONNX Runtime's, from this file."""
    return replace(real.backend(), name=NAME, file=__file__)
