"""The words for a configuration: what a maintainer of its package would call it."""

from __future__ import annotations

from oracles.run import Config


def in_words(config: Config) -> str:
    """Such as "at optimisation level `all`", to stand behind a verb."""
    if config.backend:
        return f"with un-optimised {_owner(config)}"
    if level := config.get("level"):
        return f"at optimisation level `{level}`"
    if pipeline := config.get("pipeline"):
        executor = "compiled VM" if config.get("executor") == "compiled" else "VM"
        how = f"the `{pipeline}` pipeline, LLVM `-O{config.get('opt-level')}`, {executor}"
        return f"with {how}{', for CUDA' if config.get('device') == 'cuda' else ''}"
    backend = config.get("backend")
    if backend and backend != "eager":
        return f'with `torch.compile(backend="{backend}")`'
    return "in eager mode" if backend or config.label == "eager" else f"in the configuration `{config.label}`"


def in_short(config: Config) -> str:
    """For the head of a column and for a title: `all`, `eager`, `onnxruntime`."""
    return _owner(config) if config.backend else config.label


def only_with(failing: Config, passing: Config) -> str:
    """What it takes for the failure to show, for the end of a title; empty where that goes without saying."""
    if passing.backend:
        return ""
    kind = "optimisation level " if failing.get("level") else ""
    return f" ({kind}{in_short(failing)}, not {in_short(passing)})"


def _owner(config: Config) -> str:
    return "onnxruntime" if config.backend == "ort" else config.backend
