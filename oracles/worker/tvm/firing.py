"""Which of TVM's passes change a Relax program, each by itself after what it needs."""

import json
import os
import signal
from typing import Any

import tvm
import tvm_ffi

from oracles.worker.tvm.build import to_module
from oracles.worker.tvm.passes import ASKED_ABOUT, PASSES, repaired

MOST_CPU, MOST_WALL = 10.0, 40.0
"""Seconds for all the passes that are asked about at once."""

ALL = {**PASSES, **ASKED_ABOUT}

TIDYING = frozenset(
    (
        "CanonicalizeBindings",
        "DeadCodeElimination",
        "Normalize",
        "RemoveUnusedOutputs",
        "RemoveUnusedParameters",
    )
)
"""Passes that are asked about the program as it is; most others tidy it too, which says nothing of them."""


REWRITERS = ("AdjustMatmulOrder", "ExpandMatmulOfSum")
"""Passes that match a graph and rewrite it: all such bring an If into one form, whatever they look for."""


def tidy(module: Any, rewriter: str) -> Any:
    """The module without redundant casts, redundant names and dead bindings."""
    for name in ("CanonicalizeBindings", "DeadCodeElimination", rewriter, "CanonicalizeBindings"):
        module = ALL[name].build()(module)
    return module


def changed_by(program: str, names: list[str]) -> list[str]:
    """List the passes that change the module, each tried in a process of its own.

    A pass that fails on the module does not count. Some passes end their process, or do not end.
    """
    near, far = os.pipe()
    child = os.fork()
    if not child:
        os.close(near)
        signal.setitimer(signal.ITIMER_PROF, MOST_CPU)
        signal.setitimer(signal.ITIMER_REAL, MOST_WALL)
        try:
            os.write(far, json.dumps(changing(to_module(json.loads(program)), names)).encode())
        finally:
            os._exit(0)
    os.close(far)
    with open(near, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    found: list[str] = json.loads(answer) if answer else []
    return found


def changing(module: Any, names: list[str]) -> list[str]:
    """List the passes that change a module, in this process."""
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    with target:
        starts: dict[str, dict[tuple[str, ...], Any]] = {"": {(): module}}
        for name in names:
            starts.setdefault(start_of(name), {})
        for rewriter in starts.keys() - {""}:
            starts[rewriter][()] = tidy(module, rewriter)
        return [name for name in names if changes(starts[start_of(name)], sequence_of(name))]


def sequence_of(name: str) -> tuple[str, ...]:
    """The pass with what it needs before it."""
    return (name,) if name in ASKED_ABOUT else tuple(repaired([name]))


def start_of(name: str) -> str:
    """The rewriter after which a pass is asked; none for one that is asked about the program as it is."""
    if name in TIDYING:
        return ""
    return REWRITERS[1] if name == REWRITERS[0] else REWRITERS[0]


def changes(before: dict[tuple[str, ...], Any], sequence: tuple[str, ...]) -> bool:
    """Whether the last pass of a sequence changes what the others leave; that is kept for the next one."""
    try:
        module = after(before, sequence[:-1])
        digest = tvm_ffi.structural_hash(module)
        return bool(digest != tvm_ffi.structural_hash(ALL[sequence[-1]].build()(module)))
    except Exception:  # a pass that refuses the module fires on none of it
        return False


def after(before: dict[tuple[str, ...], Any], sequence: tuple[str, ...]) -> Any:
    """Give the module after a sequence of passes; each prefix is run once."""
    if sequence not in before:
        before[sequence] = PASSES[sequence[-1]].build()(after(before, sequence[:-1]))
    return before[sequence]
