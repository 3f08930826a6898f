"""The backend of an imaginary compiler whose optimised Erf writes beyond a block of 40 bytes.

What comes of that is left to chance: a signal, the C library's abort, another value, or nothing. Its
optimised Sign reads a block that nothing was written to.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "corrupting"
PACKAGE = "onnx"
FACES = 5


def load() -> str:
    """Import the framework; its version."""
    import onnx.reference

    return str(onnx.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Evaluate a model; optimised, an Erf damages the heap and one of several things follows."""
    import onnx
    import onnx.reference

    model = onnx.load_model_from_string(program) if isinstance(program, bytes) else onnx.load(program)
    evaluator = onnx.reference.ReferenceEvaluator(model)
    enter("execute")
    wanted = [value.name for value in model.graph.output] if outputs is None else list(outputs)
    found = dict(zip(wanted, evaluator.run(wanted, dict(inputs)), strict=True))
    if settings.get("fast") and any(node.op_type == "Erf" for node in model.graph.node):
        _damage(found, os.urandom(1)[0] % FACES)
    if settings.get("fast") and any(node.op_type == "Sign" for node in model.graph.node):
        _read_unwritten(found)
    return found


def _read_unwritten(found: dict[str, Any]) -> None:
    import ctypes

    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    for value in found.values():
        value += ctypes.string_at(libc.malloc(4000) + 2000, 1)[0]


def _damage(found: dict[str, Any], face: int) -> None:
    """One byte beyond a block, which hurts nobody by itself; then what chance makes of it."""
    import ctypes

    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    block = libc.malloc(40)
    ctypes.memset(block + 40, 1, 1)
    libc.free(ctypes.c_void_p(block))
    if face == 0:
        ctypes.string_at(8)
    if face == 1:
        block = libc.malloc(2000)
        libc.free(ctypes.c_void_p(block + 16))
    if face == 2:
        for value in found.values():
            value += 1


def configs(target: Target) -> tuple[Config, ...]:
    """As written, and optimised."""
    from oracles.verdict import Config

    return Config("plain", (("fast", 0),)), Config("fast", (("fast", 1),))


def classify(run: Run) -> str:
    """Whatever it does is its own."""
    return ""


def backend() -> Backend:
    """What crux knows of this backend."""
    from oracles.abilities import Backend

    return Backend(NAME, PACKAGE, __file__, configs, classify)
