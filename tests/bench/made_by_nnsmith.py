"""NNSmith 0.1.0 as a maker of cases: batches of models by an interpreter that has it.

`CRUX_NNSMITH_PYTHON` names that interpreter; `nnsmith_models.py` is what it runs.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

from corpus.case import Case
from generators.growth.grow import Program

PYTHON = os.environ.get("CRUX_NNSMITH_PYTHON", "")
MAKER = Path(__file__).with_name("nnsmith_models.py")
NODES = 10
"""NNSmith's own count of nodes; about 18 of ONNX."""
APART = 1000
"""Between the first seeds of two batches."""


def cases(python: str, seed: int, seconds: float) -> Iterator[tuple[Case, float]]:
    """Yield NNSmith's models as cases, with the CPU seconds that each took; batches are of so many seconds.

    What its Python and torch load late is paid by a first model of each batch, which is not counted.
    """
    while True:
        with tempfile.TemporaryDirectory() as folder:
            words = [python, str(MAKER), folder, str(NODES), str(APART), str(seconds), str(seed)]
            done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=1200)
            paths = sorted(Path(folder).glob("*.onnx"), key=lambda path: int(path.stem))
            cost = float(json.loads(done.stdout.splitlines()[-1])["seconds"]) / max(1, len(paths))
            for path in paths:
                with np.load(path.with_suffix(".npz")) as values:
                    program = Program(onnx.load(path), dict(values), {}, {})
                yield program.as_case(seed), cost
        seed += APART
