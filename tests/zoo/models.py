"""The list of the zoo: name, network or graph, exporter; `build` writes one as a case folder."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from tests.zoo import helpers, language, sequences, vision
from tests.zoo.export import Dynamic, export, quantise

Graph = Callable[[np.random.Generator], tuple[onnx.ModelProto, dict[str, np.ndarray]]]


@dataclass(frozen=True)
class Entry:
    """One model: a network with its arguments, or a graph; `dtype` and `quantised` change it on the way."""

    name: str
    net: Callable[[], nn.Module] | None = None
    arguments: Callable[[], Sequence[Tensor]] = tuple
    dynamo: bool = True
    opset: int = 18
    free: dict[str, Dynamic] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    quantised: str = ""
    graph: Graph | None = None


def build(entry: Entry, folder: Path) -> Path:
    """The case folder of an entry under `folder`, written when it is not there."""
    case = folder / entry.name
    if (case / "inputs.npz").exists():
        return case
    case.mkdir(parents=True, exist_ok=True)
    seed = int(hashlib.sha256(entry.name.encode()).hexdigest()[:6], 16)
    torch.manual_seed(seed)
    if entry.graph is not None:
        model, inputs = entry.graph(np.random.default_rng(seed))
        onnx.save(model, case / "model.onnx")
    else:
        inputs = _exported(entry, case)
    np.savez(case / "inputs.npz", **{name: _stored(value) for name, value in inputs.items()})
    return case


def _exported(entry: Entry, case: Path) -> dict[str, np.ndarray]:
    assert entry.net is not None
    net, arguments = entry.net().to(entry.dtype), entry.arguments()
    arguments = [x.to(entry.dtype) if x.is_floating_point() else x for x in arguments]
    path = case / ("plain.onnx" if entry.quantised else "model.onnx")
    inputs = export(net, arguments, path, dynamo=entry.dynamo, opset=entry.opset, free=entry.free)
    if entry.quantised:
        quantise(path, case / "model.onnx", inputs, entry.quantised)
        path.unlink()
    return inputs


def _stored(value: np.ndarray) -> np.ndarray:
    """As `inputs.npz` holds it: strings as numpy's own."""
    return value.astype("U") if value.dtype == object else value


def _ids(*shape: int, most: int = 50) -> Tensor:
    return torch.randint(0, most, shape)


def _image(size: int = 16, channels: int = 3) -> Callable[[], Sequence[Tensor]]:
    return lambda: [torch.randn(1, channels, size, size)]


def _padded() -> Sequence[Tensor]:
    return [_ids(2, 6), torch.tensor([[1] * 6, [1] * 4 + [0] * 2])]


def _one() -> Sequence[Tensor]:
    return [_ids(1, 6)]


_NETS: tuple[Entry, ...] = (
    Entry("bert-script", language.Bert, _padded, dynamo=False, opset=14,
          free={"in0": {1: "length"}, "in1": {1: "length"}}),
    Entry("bert-half", language.Bert, _padded, dtype=torch.float16),
    Entry("bert-int8", language.Bert, _padded, dynamo=False, opset=17, quantised="qdq"),
    Entry("bert-dynamic-int8", language.Bert, _padded, dynamo=False, opset=17, quantised="dynamic"),
    Entry("gpt-infinite", lambda: language.Gpt(float("-inf")), _one, dynamo=False, opset=17),
    Entry("gpt-half", lambda: language.Gpt(-65504.0), _one, dynamo=False, opset=17, dtype=torch.float16),
    Entry("llama-dynamo", language.Llama, _padded, opset=20),
    Entry("llama-half", language.Llama, _padded, dtype=torch.float16, dynamo=False, opset=17),
    Entry("cached-step", language.Cached, lambda: [torch.randn(1, n, 16) for n in (1, 4, 4)],
          dynamo=False, opset=17,
          free={"in1": {1: "past"}, "in2": {1: "past"}}),
    Entry("resnet-script", vision.Residual, _image(), dynamo=False, opset=13, free={"in0": {0: "batch"}}),
    Entry("resnet-int8", vision.Residual, _image(), dynamo=False, opset=17, quantised="qdq"),
    Entry("resnet-qlinear", vision.Residual, _image(), dynamo=False, opset=17, quantised="operators"),
    Entry("segformer-int8", vision.Segformer, _image(64), dynamo=False, opset=17, quantised="qdq"),
    Entry("unet-half", vision.Unet, _image(), dtype=torch.float16),
    Entry("unet-int8", vision.Unet, _image(), dynamo=False, opset=17, quantised="qdq"),
    Entry("detector", vision.Detector, _image(), dynamo=False, opset=17),
    Entry("detector-int8", vision.Detector, _image(), dynamo=False, opset=17, quantised="qdq"),
    Entry("upscaler", vision.Upscaler, _image(8), dynamo=False, opset=17),
    Entry("lstm", sequences.Recurrent, lambda: [_ids(1, 5, most=30)], dynamo=False, opset=17),
    Entry("lstm-dynamic-int8", sequences.Recurrent, lambda: [_ids(1, 5, most=30)], dynamo=False, opset=17,
          quantised="dynamic"),
    Entry("mamba-dynamo", sequences.Mamba, lambda: [torch.randn(1, 8, 8)]),
    Entry("messages", sequences.Messages, lambda: [torch.randn(5, 6), _ids(7, most=5), _ids(7, most=5)],
          dynamo=False, opset=17),
)  # fmt: skip
_GRAPHS = (
    helpers.classifier,
    helpers.forest,
    helpers.labels,
    helpers.gatherer,
)
ZOO = (*_NETS, *(Entry(f"helper-{graph.__name__}", graph=graph) for graph in _GRAPHS))
