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
FREE = {"in0": {0: "batch"}}
TOKENS = {"in0": {1: "length"}}


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
    """As `inputs.npz` holds it: bfloat16 as bits, strings as numpy's own."""
    if value.dtype.name == "bfloat16":
        return value.view(np.uint16)
    return value.astype("U") if value.dtype == object else value


def _ids(*shape: int, most: int = 50) -> Tensor:
    return torch.randint(0, most, shape)


def _image(size: int = 16, channels: int = 3) -> Callable[[], Sequence[Tensor]]:
    return lambda: [torch.randn(1, channels, size, size)]


def _padded() -> Sequence[Tensor]:
    return [_ids(2, 6), torch.tensor([[1] * 6, [1] * 4 + [0] * 2])]


def _one() -> Sequence[Tensor]:
    return [_ids(1, 6)]


def _along() -> Sequence[Tensor]:
    return [torch.randn(1, 8, 8)]


_NETS: tuple[Entry, ...] = (
    Entry("bert-script", language.Bert, _padded, dynamo=False, opset=14,
          free=TOKENS | {"in1": {1: "length"}}),
    Entry("bert-dynamo", language.Bert, _padded),
    Entry("bert-half", language.Bert, _padded, dtype=torch.float16),
    Entry("bert-int8", language.Bert, _padded, dynamo=False, opset=17, quantised="qdq"),
    Entry("bert-dynamic-int8", language.Bert, _padded, dynamo=False, opset=17, quantised="dynamic"),
    Entry("gpt-least", language.Gpt, _one),
    Entry("gpt-infinite", lambda: language.Gpt(float("-inf")), _one, dynamo=False, opset=17),
    Entry("gpt-half", lambda: language.Gpt(-65504.0), _one, dynamo=False, opset=17, dtype=torch.float16),
    Entry("gpt-where", language.GptWhere, _one, dynamo=False, opset=14),
    Entry("gpt-int8", language.Gpt, _one, dynamo=False, opset=17, quantised="qdq"),
    Entry("llama-dynamo", language.Llama, _padded, opset=20),
    Entry("llama-script", language.Llama, _padded, dynamo=False, opset=16),
    Entry("llama-half", language.Llama, _padded, dtype=torch.float16, dynamo=False, opset=17),
    Entry("llama-dynamic-int8", language.Llama, _padded, dynamo=False, opset=16, quantised="dynamic"),
    Entry("experts", lambda: language.Llama(1, 3), _padded),
    Entry("bitnet", language.BitNet, _one, dynamo=False, opset=17),
    Entry("bitnet-brain", lambda: language.BitNet(torch.bfloat16), _one, dynamo=False, opset=17),
    Entry("buckets", language.Buckets, _padded, dynamo=False, opset=17),
    Entry("relative-bias", language.Relative, _one, dynamo=False, opset=15),
    Entry("slopes", language.Slopes, _padded, dynamo=False, opset=17),
    Entry("translator", language.Translator, lambda: [_ids(1, 5), _ids(1, 4)]),
    Entry("cached-step", language.Cached, lambda: [torch.randn(1, n, 16) for n in (1, 4, 4)],
          dynamo=False, opset=17,
          free={"in1": {1: "past"}, "in2": {1: "past"}}),
    Entry("fused-encoder", language.Fused, lambda: [torch.randn(1, 5, 16)]),
    Entry("resnet-script", vision.Residual, _image(), dynamo=False, opset=13, free=FREE),
    Entry("resnet-dynamo", vision.Residual, _image()),
    Entry("resnet-int8", vision.Residual, _image(), dynamo=False, opset=17, quantised="qdq"),
    Entry("resnet-qlinear", vision.Residual, _image(), dynamo=False, opset=17, quantised="operators"),
    Entry("vit", vision.Vit, _image(), dynamo=False, opset=17),
    Entry("vit-half", vision.Vit, _image(), dynamo=False, opset=17, dtype=torch.float16),
    Entry("vit-int8", vision.Vit, _image(), dynamo=False, opset=17, quantised="qdq"),
    Entry("segformer-int8", vision.Segformer, _image(64), dynamo=False, opset=17, quantised="qdq"),
    Entry("swin-script", vision.Swin, _image(), dynamo=False, opset=17),
    Entry("swin-dynamo", vision.Swin, _image()),
    Entry("unet", vision.Unet, _image(), dynamo=False, opset=17),
    Entry("unet-half", vision.Unet, _image(), dtype=torch.float16),
    Entry("unet-int8", vision.Unet, _image(), dynamo=False, opset=17, quantised="qdq"),
    Entry("diffusion", vision.Diffusion, lambda: [torch.randn(1, 4, 8, 8), torch.tensor([7])]),
    Entry("efficientnet", vision.Squeezed, _image()),
    Entry("convnext", vision.Convnext, _image(), dynamo=False, opset=17),
    Entry("convnext-qlinear", vision.Convnext, _image(), dynamo=False, opset=17, quantised="operators"),
    Entry("mobilevit", vision.MobileVit, _image(8), dynamo=False, opset=17, free=FREE),
    Entry("detector", vision.Detector, _image(), dynamo=False, opset=17),
    Entry("detector-int8", vision.Detector, _image(), dynamo=False, opset=17, quantised="qdq"),
    Entry("detector-selected", vision.Selected, _image()),
    Entry("queries", vision.Queries, _image(), dynamo=False, opset=16),
    Entry("segmenter", vision.Segmenter, _image()),
    Entry("upscaler", vision.Upscaler, _image(8), dynamo=False, opset=17),
    Entry("lstm", sequences.Recurrent, lambda: [_ids(1, 5, most=30)], dynamo=False, opset=17),
    Entry("lstm-dynamic-int8", sequences.Recurrent, lambda: [_ids(1, 5, most=30)], dynamo=False, opset=17,
          quantised="dynamic"),
    Entry("gru", lambda: sequences.Recurrent(nn.GRU), lambda: [_ids(1, 5, most=30)], dynamo=False, opset=14),
    Entry("mamba-script", sequences.Mamba, _along, dynamo=False, opset=17),
    Entry("mamba-dynamo", sequences.Mamba, _along),
    Entry("mamba-int8", sequences.Mamba, _along, dynamo=False, opset=17, quantised="qdq"),
    Entry("wavenet", sequences.Wave, lambda: [torch.randn(1, 4, 10)], dynamo=False, opset=17),
    Entry("conformer", sequences.Conformer, lambda: [torch.randn(2, 6, 8), torch.tensor([6, 4])],
          dynamo=False, opset=17),
    Entry("whisper", sequences.Whisper, lambda: [torch.rand(1, 6, 16) ** 4]),
    Entry("flow", sequences.Flow, lambda: [torch.randn(3, 6)], dynamo=False, opset=17),
    Entry("ranker", sequences.Ranker, lambda: [torch.rand(2, 5) * 9, _ids(2, 3, most=40)]),
    Entry("messages", sequences.Messages, lambda: [torch.randn(5, 6), _ids(7, most=5), _ids(7, most=5)],
          dynamo=False, opset=17),
)  # fmt: skip
_GRAPHS = (
    helpers.classifier,
    helpers.forest,
    helpers.labels,
    helpers.whiten,
    helpers.gatherer,
    helpers.chosen,
)
ZOO = (*_NETS, *(Entry(f"helper-{graph.__name__}", graph=graph) for graph in _GRAPHS))
