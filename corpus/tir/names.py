"""Names and buffers in a function, given anew wherever they stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from corpus.tir.tree import Function, Store, Thread
from corpus.tir.types import pointer_to
from corpus.tir.values import Buffer, BufferRef, Call, Expr, Load, Region, Var
from corpus.tir.walk import map_buffers, map_expressions, rebuilt


def renamed(function: Function, names: Mapping[str, str]) -> Function:
    """Return the function with these names replaced; those that the table lacks stay."""

    def change(node: Any) -> Any:
        return _named(rebuilt(node, change), names)

    found: Function = rebuilt(function, change)
    return found


def renamed_in(node: Any, names: Mapping[str, str]) -> Any:
    """Return an expression, a statement or a body with these names replaced."""

    def change(found: Any) -> Any:
        return _named(rebuilt(found, change), names)

    return tuple(change(item) for item in node) if isinstance(node, tuple) else change(node)


def with_buffer(function: Function, buffer: Buffer) -> Function:
    """Return the function with this buffer where one of its name was; its addresses are typed as its own."""
    pointer = pointer_to(buffer.dtype, buffer.scope)

    def typed(expr: Expr) -> Expr:
        match expr:
            case Call("buffer_data" | "address_of", (BufferRef(name) | Load(name), *_)) if (
                name == buffer.name
            ):
                return expr if expr.dtype == pointer else replace(expr, dtype=pointer)
        return expr

    changed = map_buffers(function, lambda one: buffer if one.name == buffer.name else one)
    return map_expressions(changed, typed)


def _named(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, Var | Buffer | Thread):
        new = names.get(node.name, node.name)
        return node if new == node.name else replace(node, name=new)
    if isinstance(node, Load | Store | BufferRef | Region):
        new = names.get(node.buffer, node.buffer)
        return node if new == node.buffer else replace(node, buffer=new)
    return node


def free_name(taken: set[str], wish: str) -> str:
    """Return the wish, or with a number after it the first that is not taken yet; it is taken then."""
    found, count = wish, 0
    while found in taken:
        count += 1
        found = f"{wish}_{count}"
    taken.add(found)
    return found


def substituted(node: Any, values: Mapping[str, Expr]) -> Any:
    """Return an expression, a statement or a body with variables replaced by expressions of their type."""

    def change(found: Any) -> Any:
        if isinstance(found, Var) and found.name in values:
            return values[found.name]
        return rebuilt(found, change)

    return tuple(change(item) for item in node) if isinstance(node, tuple) else change(node)
