"""Arrays and tensors of torch, one made from the other."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager  # noqa: UP035 (Python 3.8)

import torch


class Unsupported(NotImplementedError):
    """There is no lowering for an operator, or not for this form or dtype of it."""


FOREIGN = {"bfloat16": torch.bfloat16}
"""The types that numpy lacks and torch computes in."""

SMALL = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")

STORED = {**FOREIGN, **{name: getattr(torch, name) for name in SMALL if hasattr(torch, name)}}
"""Those and the ones that torch keeps and converts, which only programs of its own hold."""


def to_torch(value: Any, known: Any = FOREIGN) -> Any:
    """A tensor of an array, or of (type name, bits)."""
    if isinstance(value, tuple):
        name, bits = value
        if name not in known:
            raise Unsupported(f"torch takes no input of dtype {name}")
        return torch.from_numpy(bits.view("int16" if bits.itemsize == 2 else "uint8").copy()).view(
            known[name]
        )
    if isinstance(value, list) or value is None or value.dtype.kind in "OUS":
        raise Unsupported("torch takes no input of dtype string, sequence or optional")
    return torch.from_numpy(value.copy())


def from_torch(value: Any) -> Any:
    """The array of a tensor, or (type name, bits); what is quantised or sparse is written out."""
    value = value.detach().cpu()
    value = value.dequantize() if value.is_quantized else value.to_dense() if not is_strided(value) else value
    value = value.contiguous().resolve_conj().resolve_neg()
    if value.dtype is torch.bfloat16:
        return "bfloat16", value.view(torch.int16).numpy().view("uint16")
    name = str(value.dtype).split(".")[-1]
    return (name, value.view(torch.uint8).numpy()) if name in STORED else value.numpy()


def is_strided(value: Any) -> bool:
    """Say whether a tensor is dense: neither sparse nor of a private layout."""
    return bool(value.layout is torch.strided)


NAMES = {"cpu": "cpu", "cuda": "cuda:0"}
"""What torch calls the device of a setting."""


def placed(module: Any, feeds: list[Any], settings: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Bring a module and its inputs to the device that the settings name; it was built on the CPU."""
    device = NAMES[str(settings.get("device", "cpu"))]
    if device == "cpu":
        return module, feeds
    return module.to(device), [each.to(device) for each in feeds]


def on_device(settings: dict[str, Any]) -> ContextManager[Any]:
    """Let what a program makes anew lie on its device as well."""
    device = NAMES[str(settings.get("device", "cpu"))]
    return contextlib.nullcontext() if device == "cpu" else torch.device(device)


def called_there(
    module: Any, feeds: list[Any], settings: dict[str, Any], enter: Callable[[str], None]
) -> Any:
    """Call a module where the settings say; with `warm` once before the call that is timed."""
    with on_device(settings):
        if settings.get("warm"):
            module(*feeds)
            enter("execute")
        return module(*feeds)
