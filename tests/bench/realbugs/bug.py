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
"""The releases of ONNX Runtime that were asked for each bug, oldest first."""
TVM_RELEASES = ("0.25.0.post1", "0.26.0", "0.27.0.post1")
OFFERED = {"ort": ("onnxruntime", RELEASES), "tvm": ("apache-tvm", TVM_RELEASES)}
"""By target the package and its releases; a bug of another target is seen on what is installed alone."""


@dataclass(frozen=True)
class Bug:
    """A bug of a compiler: `thread` is the number of the issue or change where it was told.

    It shows on every one of its target's releases from the first to the last of `span`, and on no other
    that can run the model; reductions run on `seen_on`. `outcome` and `phase` are what a check has to say,
    `culprits` the words that name the pass, operator or file that `change`, the mend, is about, and `least`
    the fewest nodes that show it, by hand. Bugs of one `cause` are one bug told twice. `oracles` are those
    that see it, where the un-optimised kernel is wrong, too. `domains` are written as `NAME:VERSION`. Those
    that are not hosted are reduced as they were told. A slow one is held `against` a release without it.
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
    against: str = ""

    @property
    def release(self) -> str:
        """The release that it is reduced on."""
        return self.seen_on or self.span[1]

    @property
    def package(self) -> str:
        """The package whose releases have it; "" where only the installed one is asked."""
        return OFFERED.get(self.target, ("", ()))[0]

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that were asked, oldest first."""
        return OFFERED.get(self.target, ("", self.span[1:]))[1]

    @property
    def first_fixed(self) -> str:
        """The oldest release without it behind those with it; "" where the newest has it."""
        return next(iter(self.releases[self.releases.index(self.span[1]) + 1 :]), "")

    @property
    def last_good(self) -> str:
        """The newest release before those with it; "" where the oldest has it, or cannot tell."""
        return next(reversed(self.releases[: self.releases.index(self.span[0])]), "")

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
        named = (domain.split(":") for domain in self.domains)
        versions = ", ".join(f'"{name}" : {version}' for name, version in named)
        sets = f'"" : {self.opset}' + (f", {versions}" if versions else "")
        return parser.parse_model(f"<ir_version: 8, opset_import: [{sets}]>\n{self.model}")

    def write(self, folder: Path, model: onnx.ModelProto, inputs: Inputs) -> Path:
        """The model and its inputs as a user has them; the model's path."""
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / "model.onnx")
        np.savez(folder / "inputs.npz", **inputs)
        return folder / "model.onnx"

    def opened(self, folder: Path) -> list[object]:
        """The words by which the command line opens what was written."""
        return [folder / "model.onnx", "--inputs", folder / "inputs.npz"]


def floats(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Normal numbers of a seed."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
