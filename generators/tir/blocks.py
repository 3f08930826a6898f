"""Loops as blocks: what TVM's schedules work on, so that passes over blocks have something to do."""

from __future__ import annotations

from dataclasses import replace

from corpus.tir.names import substituted
from corpus.tir.tree import Alloc, Axis, Block, Body, For, Module, Stmt, Store
from corpus.tir.values import Buffer, Const, Expr, Load, Range, Region, Var
from corpus.tir.walk import buffers, expressions, with_function
from generators.tir.frame import Names
from generators.tir.sites import is_independent


def in_blocks(module: Module) -> Module:
    """The module with the innermost store of each fitting nest as a block, and one block around all."""
    function = module.main
    names = Names.of(function)
    known = {buffer.name: buffer for buffer in buffers((function,))}
    body = tuple(_changed(stmt, (), names, known) for stmt in function.body)
    allocs, rest = _allocations(body)
    root = Block(names.fresh("root"), (), (), (), rest, allocs=allocs)
    return with_function(module, module.entry, replace(function, body=(root,)))


def _allocations(body: Body) -> tuple[tuple[Buffer, ...], Body]:
    """Return the memory of a body, which a block declares, and the rest."""
    allocs = tuple(stmt.buffer for stmt in body if isinstance(stmt, Alloc))
    return allocs, tuple(stmt for stmt in body if not isinstance(stmt, Alloc))


def _changed(stmt: Stmt, loops: tuple[For, ...], names: Names, known: dict[str, Buffer]) -> Stmt:
    if isinstance(stmt, For) and _is_plain(stmt) and len(stmt.body) == 1:
        inner = _changed(stmt.body[0], (*loops, stmt), names, known)
        return replace(stmt, body=(inner,))
    if isinstance(stmt, Store) and loops and all(map(is_independent, loops)):
        return _block(stmt, loops, names, known)
    return stmt


def _is_plain(loop: For) -> bool:
    return loop.kind == "serial" and loop.min == Const(0) and isinstance(loop.extent, Const)


def _block(stmt: Store, loops: tuple[For, ...], names: Names, known: dict[str, Buffer]) -> Block:
    """Return a store as a block with an axis for each loop."""
    axes = tuple(
        Axis(Var(names.fresh("v")), Range(Const(0), loop.extent), "spatial", loop.var) for loop in loops
    )
    inside: dict[str, Expr] = {loop.var.name: axis.var for loop, axis in zip(loops, axes, strict=True)}
    store: Store = substituted(stmt, inside)
    reads = {item.buffer: item for item in expressions((store,)) if isinstance(item, Load)}
    regions = tuple(_whole(known[name]) for name in reads)
    return Block(names.fresh("block"), axes, regions, (_whole(known[store.buffer]),), (store,))


def _whole(buffer: Buffer) -> Region:
    return Region(buffer.name, tuple(Range(Const(0), dim) for dim in buffer.shape))
