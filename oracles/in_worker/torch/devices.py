"""Where a lowered graph runs: on the CPU, or on a GPU that is started only when a program is to run there."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager  # noqa: UP035 (Python 3.8)

import torch

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
