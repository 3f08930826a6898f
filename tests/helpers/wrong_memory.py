"""Rewrites of a program with a workspace `T`, an input `A` and a result `B` that misuse their memory."""

from collections.abc import Callable
from dataclasses import replace

from corpus.tir.tree import For, Function, If, Store
from corpus.tir.values import Binary, Const, Expr, Load

WORKSPACE = 1024
"""Elements of the workspace."""
Rewrite = Callable[[Function], Function]


def load(name: str, index: Expr | int) -> Load:
    """An element of a buffer."""
    return Load(name, (Const(index) if isinstance(index, int) else index,), "float32")


def stored(buffer: str, at: int) -> Rewrite:
    """A store too many, `at` elements after the buffer's last one."""

    def rewrite(function: Function) -> Function:
        place = Const(_size(function, buffer) - 1 + at)
        return replace(function, body=(*function.body, Store(buffer, (place,), Const(1.0, "float32"))))

    return rewrite


def read(buffer: str, at: int) -> Rewrite:
    """The first element of the result is one `at` elements after the buffer's last one."""

    def rewrite(function: Function) -> Function:
        size = _size(function, buffer)
        return replace(function, body=(*function.body, Store("B", (Const(0),), load(buffer, size - 1 + at))))

    return rewrite


def filled(rounds: int) -> Rewrite:
    """The workspace is filled by so many rounds."""

    def rewrite(function: Function) -> Function:
        alloc, loop, rest = function.body
        assert isinstance(loop, For)
        fewer = replace(loop, extent=Const(rounds))
        never = If(Binary("lt", Const(1e30, "float32"), load("A", 0)), (loop,))  # which no compiler knows
        return replace(function, body=(alloc, fewer if rounds else never, rest))

    return rewrite


def _size(function: Function, buffer: str) -> int:
    if buffer == "T":
        return WORKSPACE
    (dim,) = function.buffers[0].shape
    return int(dim.value) if isinstance(dim, Const) else 0


MISUSES: dict[str, Rewrite] = {
    "write one beyond": stored("B", 1),
    "write one before": lambda function: stored("B", -_size(function, "B"))(function),
    "write far beyond": stored("B", 1_000),
    "read one beyond": read("A", 1),
    "read one before": lambda function: read("A", -_size(function, "A"))(function),
    "read far beyond": read("A", 2_000),
    "write beyond a workspace": stored("T", 1),
    "read beyond a workspace": read("T", 1),
    "workspace never written": filled(0),
    "workspace written in part": filled(3),
}
"""Accesses out of bounds, and reads of what nothing wrote."""
