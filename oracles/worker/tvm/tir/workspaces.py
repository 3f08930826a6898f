"""Workspaces between closed pages: memory that a function allocates itself, taken from here in a further run.

TVM's code takes each piece by a call of a packed function. Pieces are filled with a byte; what is written
beside one is seen afterwards, and what is read of one before it is written shows in the results, since the
runs with two bytes differ then.
"""

import ctypes
import math
from contextlib import contextmanager
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, tirx

from oracles.worker.edges import EDGE, WrittenBeyond, between_edges

TAKE = "crux.take_workspace"
FILLINGS = (EDGE, 0xC2)
MOST_BYTES = 1 << 24
PARALLEL = 1
taken: list[tuple[Any, Any]] = []
"""The pieces of this run: the bytes around each, and the piece itself."""
filling: list[int] = [EDGE]


class ReadsUnwritten(Exception):
    """The results hang on memory that nothing was written to."""


def take(size: int) -> Any:
    """The address of a new piece."""
    piece = np.full(max(size, 1), filling[-1], "uint8")
    taken.append(between_edges(piece, filling[-1], at_start=len(taken) % 2 == 1))
    return ctypes.c_void_p(taken[-1][1].ctypes.data)


tvm_ffi.register_global_func(TAKE, take)


def with_workspaces(module: Any) -> Any:
    """The lowered module with its workspaces taken from here; None if it has none of a known size.

    Those in parallel loops stay, since threads would share one.
    """
    changed = {var: _taking(each) for var, each in module.functions.items()}
    if all(each is None for each in changed.values()):
        return None
    return tvm.IRModule(
        {var: each if changed[var] is None else changed[var] for var, each in module.functions.items()}
    )


def _taking(function: Any) -> Any:
    """The function with its workspaces taken from here; None if it has none."""
    shared: list[Any] = []
    sizes: dict[Any, int] = {}

    def look(loop: Any) -> None:
        if int(loop.kind) == PARALLEL:
            tvm_ffi.structural_walk(loop.body, [(tirx.AllocBuffer, shared.append)])

    def count(stmt: Any) -> None:
        size = _bytes(stmt.buffer.ty)
        if size is not None and not any(stmt.same_as(each) for each in shared):
            sizes[stmt.buffer] = size

    tvm_ffi.structural_walk(function.body, [(tirx.For, look)])
    tvm_ffi.structural_walk(function.body, [(tirx.AllocBuffer, count)])

    def change(stmt: Any) -> Any:
        return _taken(stmt.buffer, sizes[stmt.buffer]) if stmt.buffer in sizes else stmt

    body = tvm_ffi.structural_map(function.body, [(tirx.AllocBuffer, change)])
    return function.with_body(body) if sizes else None


def _bytes(kind: Any) -> "int | None":
    """The bytes of a buffer; None if they are not known, or too many."""
    if not all(isinstance(dim, tirx.IntImm) for dim in kind.shape):
        return None
    dtype = kind.dtype.dtype
    size = math.prod(int(dim) for dim in kind.shape) * dtype.lanes * -(-dtype.bits // 8)
    return size if size <= MOST_BYTES else None


def _taken(buffer: Any, size: int) -> Any:
    """The statements that declare a buffer over a piece."""
    kind = buffer.ty
    var = tirx.Var(f"{buffer.name}_data", ir.PointerType(kind.dtype, kind.storage_scope))
    args = [ir.StringImm(TAKE), tirx.IntImm("int64", size)]
    call = ir.Call(ir.Op.get("tirx.tvm_call_packed"), args, ret_ty=var.ty)
    return tirx.SeqStmt([tirx.Bind(var, call), tirx.DeclBuffer(buffer, data=var)])


def must_hold(run: Callable[[], dict[str, Any]]) -> None:
    """Raise WrittenBeyond or ReadsUnwritten if a run with such workspaces misuses one."""
    first, other = (_filled(run, byte) for byte in FILLINGS)
    if any(np.asarray(first[name]).tobytes() != np.asarray(other[name]).tobytes() for name in first):
        raise ReadsUnwritten("memory: reads an unwritten workspace")


def _filled(run: Callable[[], dict[str, Any]], byte: int) -> dict[str, Any]:
    with _pieces(byte):
        found = run()
        if any((each != byte).any() for around, _ in taken for each in around):
            raise WrittenBeyond("memory: writes beyond a workspace")
    return found


@contextmanager
def _pieces(byte: int) -> Iterator[None]:
    """New pieces are filled with this byte; they go at the end."""
    filling.append(byte)
    try:
        yield
    finally:
        filling.pop()
        taken.clear()
