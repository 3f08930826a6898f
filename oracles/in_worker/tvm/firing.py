"""Which of TVM's passes change a Relax program, each by itself after what it needs."""

from __future__ import annotations

import json
from typing import Any

import tvm
import tvm_ffi

from oracles.in_worker.tvm.build import to_module
from oracles.in_worker.tvm.passes import PASSES, repaired


def changed_by(program: str, names: list[str]) -> list[str]:
    """Those of the passes that change the module; one that fails on it counts as none."""
    module = to_module(json.loads(program))
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    with target:
        before: dict[tuple[str, ...], Any] = {(): module}
        return [name for name in names if changes(before, tuple(repaired([name])))]


def changes(before: dict[tuple[str, ...], Any], sequence: tuple[str, ...]) -> bool:
    """Whether the last pass of a sequence changes what the others leave, which is kept for the next question."""
    try:
        module = after(before, sequence[:-1])
        digest = tvm_ffi.structural_hash(module)
        return bool(digest != tvm_ffi.structural_hash(PASSES[sequence[-1]].build()(module)))
    except Exception:  # a pass that refuses the module fires on none of it
        return False


def after(before: dict[tuple[str, ...], Any], sequence: tuple[str, ...]) -> Any:
    if sequence not in before:
        before[sequence] = PASSES[sequence[-1]].build()(after(before, sequence[:-1]))
    return before[sequence]
