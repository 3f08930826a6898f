"""What a record of a bug is, and the case it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import parser

THREADS = {
    "onnxruntime": "https://github.com/microsoft/onnxruntime/issues/{}",
    "onnx": "https://github.com/onnx/onnx/issues/{}",
    "tvm": "https://github.com/apache/tvm/issues/{}",
    "pytorch": "https://github.com/pytorch/pytorch/issues/{}",
}
Inputs = Mapping[str, np.ndarray]


RELEASES = (
    "1.15.1", "1.16.3", "1.17.3", "1.18.1", "1.19.2", "1.20.1", "1.21.1", "1.22.1", "1.23.2",
    "1.24.4", "1.25.1", "1.26.0", "1.27.0", "1.28.0", "1.29.0", "1.30.0", "1.32.0",
)  # fmt: skip
"""The releases whose plain sessions were asked for each bug, oldest first."""


@dataclass(frozen=True)
class Bug:
    """A bug of a compiler: `thread` is the number of the issue or change where it was told.

    It shows on every one of `RELEASES` from the first to the last of `span`, and on no other that can run the
    model; reductions run on `seen_on`. `outcome` and `phase` are what a check has to say, `culprits` the
    words that name the pass, operator or file that `change`, the mend, is about, and `least` the fewest nodes
    that show it, by hand. Bugs of one `cause` are one bug told twice. `oracles` are those that see it, where
    the un-optimised kernel is wrong, too. Those of another `target` than ORT run on what is installed, and
    have one release; those that are not hosted are reduced as they were told.
    """

    id: str
    thread: int
    title: str
    model: str
    inputs: Callable[[], Inputs]
    span: tuple[str, str]
    outcome: str
    culprits: tuple[str, ...]
    phase: str = ""
    seen_on: str = ""
    least: int = 2
    opset: int = 17
    cause: str = ""
    change: int = 0
    tracker: str = "onnxruntime"
    oracles: str = ""
    domains: tuple[str, ...] = ()
    target: str = "ort"
    is_hosted: bool = True

    @property
    def release(self) -> str:
        """The release that it is reduced on."""
        return self.seen_on or self.span[1]

    @property
    def first_fixed(self) -> str:
        """The oldest of `RELEASES` without it behind those with it; "" where the newest has it."""
        after = RELEASES.index(self.span[1]) + 1 if self.target == "ort" else len(RELEASES)
        return RELEASES[after] if after < len(RELEASES) else ""

    @property
    def last_good(self) -> str:
        """The newest of `RELEASES` before those with it; "" where the oldest has it, or cannot tell."""
        before = RELEASES.index(self.span[0]) - 1 if self.target == "ort" else -1
        return RELEASES[before] if before >= 0 else ""

    @property
    def address(self) -> str:
        """Where the bug was told; GitHub shows issues and changes under one number."""
        return THREADS[self.tracker].format(self.thread)

    @property
    def name_of_cause(self) -> str:
        """The same for two records of one cause."""
        return self.cause or self.id

    def build(self) -> onnx.ModelProto:
        """The hand-made model."""
        versions = ", ".join(f'"{domain}" : 1' for domain in self.domains)
        sets = f'"" : {self.opset}' + (f", {versions}" if versions else "")
        return parser.parse_model(f"<ir_version: 8, opset_import: [{sets}]>\n{self.model}")

    def write(self, folder: Path, model: onnx.ModelProto, inputs: Inputs) -> Path:
        """The model and its inputs as a user has them; the model's path."""
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / "model.onnx")
        np.savez(folder / "inputs.npz", **inputs)
        return folder / "model.onnx"


def floats(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Normal numbers of a seed."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
