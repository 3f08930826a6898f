"""A bug of torch as a script, by itself or within a language model of about 230 nodes, as users post them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.bench.realbugs.bug import Bug

ADDED = ("float16", "float32", "float64", "int32", "int64")
HEADS = "import torch\nfrom torch import inf, nan\n"
HOST = """
torch.manual_seed(0)
W = [{n: torch.randn(*([8, 8] if n in "qkvo12" else [8])) * 0.3 for n in "qkvo12QKVB"} for _ in range(8)]
MASK = torch.full((4, 4), -1e4).triu(1)


def heads(h, weight, bias):
    return (h @ weight + bias).view(1, 4, 2, 4).transpose(1, 2)


def layer(h, w):
    q, k, v = (heads(h, w[n], w[n.upper()]) for n in "qkv")
    p = torch.softmax(q @ k.transpose(-2, -1) / 2.0 + MASK, -1)
    h = h + (p @ v).transpose(1, 2).reshape(1, 4, 8) @ w["o"]
    f = h @ w["1"] + w["B"]
    return torch.tanh(h + (f * torch.sigmoid(f)) @ w["2"])


def model(tokens, NAMES):
    hidden = tokens
    for weights in W[:4]:
        hidden = layer(hidden, weights)
    zero = (hidden * 0.0).reshape(-1).amax(0)
MIXED
    found = bug(NAMES)
    found = found if isinstance(found, (list, tuple)) else [found]
    for each in found:
        hidden = hidden + torch.tanh(each.to(torch.float32).reshape(-1).amax(0))
    for weights in W[4:]:
        hidden = layer(hidden, weights)
    return hidden, *found
"""


@dataclass(frozen=True)
class TorchBug(Bug):
    """A bug of torch: `model` is the text of a function `bug` over the names of `inputs`.

    `dims` are of any size. Within the host its inputs take a zero from the hidden values, except where it
    is `fed` with the model's own, so that what it writes to is an input.
    """

    tracker: str = "pytorch"
    target: str = "inductor"
    dims: tuple[tuple[str, int], ...] = ()
    is_fed: bool = False

    def script(self) -> str:
        """The program with its inputs."""
        values = self.inputs()
        names = ", ".join(values)
        given = [_tensor(value) for value in values.values()]
        if self.is_hosted:
            mixed = "" if self.is_fed else "\n".join(_mixed(values))
            host = HOST.replace("NAMES", names).replace("MIXED", mixed)
            given.insert(0, "torch.randn(1, 4, 8)")
        else:
            host = "\nmodel = bug\n"
        lines = [HEADS, self.model, host, f"inputs = ({', '.join(given)},)", *self._marks(list(values))]
        return "\n".join([*lines, ""])

    def _marks(self, names: list[str]) -> Iterator[str]:
        for name, dim in self.dims:
            at = names.index(name) + self.is_hosted
            yield f"torch._dynamo.mark_dynamic(inputs[{at}], {dim})"

    def write_script(self, folder: Path) -> Path:
        """The script as a file of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "model.py"
        path.write_text(self.script())
        return path

    def opened(self, folder: Path) -> list[object]:
        """A script runs code."""
        return [folder / "model.py", "--trust"]


def _tensor(value: np.ndarray) -> str:
    return f"torch.tensor({value.tolist()}, dtype=torch.{value.dtype})"


def _mixed(values: dict[str, np.ndarray]) -> Iterator[str]:
    for name, value in values.items():
        if str(value.dtype) in ADDED:
            yield f"    {name} = {name} + zero.to({name}.dtype)"
