"""NNSmith 0.1.0 as a maker of programs; `CRUX_NNSMITH_PYTHON` names an interpreter that has it."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from generators.growth.grow import Program

PYTHON = os.environ.get("CRUX_NNSMITH_PYTHON", "")
NODES = 10
"""NNSmith's own count of nodes; about 18 of ONNX."""
MANY = 100_000

needs_nnsmith = pytest.mark.skipif(
    not PYTHON, reason="CRUX_NNSMITH_PYTHON names no interpreter that has nnsmith"
)


def made(
    folder: Path, *, nodes: int = NODES, models: int = MANY, seconds: float = 120, seed: int = 0
) -> tuple[list[Program], Sequence[float]]:
    """At most so many models in so many CPU seconds, and the seconds after which each was there.

    What its Python and torch load late is paid by a first model, which is not counted.
    """
    script = Path(__file__).with_name("nnsmith_models.py")
    words = [PYTHON, str(script), str(folder), *map(str, (nodes, models, seconds, seed))]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=3000)
    programs = []
    for path in sorted(folder.glob("*.onnx"), key=lambda one: int(one.stem)):
        with np.load(path.with_suffix(".npz")) as values:
            programs.append(Program(onnx.load(path), dict(values), {}, {}))
    return programs, json.loads(done.stdout.splitlines()[-1])["moments"]
