"""Going over a tree, and changing one: by fields, so that a new kind of node needs nothing here.

A variable where it is defined (the field `var` of a loop, a binding, an axis, a let) is no expression.

Positions are counted before going into a node (*pre-order*), from 0; so they stay the same for the same tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar

from corpus.tir.forms import FORMS, PLAIN, pointer_to
from corpus.tir.tree import Body, Function, Match, Module, Stmt, Store, Thread
from corpus.tir.values import Buffer, BufferRef, Call, Expr, Load, Region, Var

Node = TypeVar("Node")


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


DEFINED = "var"
"""The field that holds the variable that a node defines."""


def children(node: Any, *, definitions: bool = True) -> Iterator[Any]:
    """The nodes right below a node, in order; without `definitions` not the variable that it defines."""
    for name in _names(node.__class__):
        if definitions or name != DEFINED:
            yield from _nodes(getattr(node, name))


def _nodes(item: Any) -> Iterator[Any]:
    if isinstance(item, tuple):
        for inner in item:
            yield from _nodes(inner)
    elif not isinstance(item, str | int | float | None) and is_dataclass(item):
        yield item
    elif isinstance(item, Mapping):
        for inner in item.values():
            if is_dataclass(inner):
                yield inner


@cache
def _holders(kind: type, definitions: bool) -> tuple[str, ...] | None:
    """The fields of a class that may hold nodes, the last one first; None for what is no node."""
    if not is_dataclass(kind):
        return None
    held = [item.name for item in fields(kind) if item.type not in PLAIN]
    return tuple(reversed([name for name in held if definitions or name != DEFINED]))


def _walk(node: Any, definitions: bool) -> Iterator[Any]:
    """Nodes with their parents before them; by a list, since whatever is done to loops walks over them."""
    waiting = [node]
    while waiting:
        item = waiting.pop()
        kind = item.__class__
        if kind is tuple:
            waiting.extend(reversed(item))
        elif (names := _holders(kind, definitions)) is not None:
            yield item
            for name in names:
                waiting.append(getattr(item, name))
        elif kind is dict:
            waiting.extend(each for each in reversed(item.values()) if is_dataclass(each))


def walk(node: Any) -> Iterator[Any]:
    """Walk a node and everything below it, parents first. A tuple of nodes is accepted too."""
    return _walk(node, True)


def statements(node: Any) -> Iterator[Stmt]:
    """Every statement in a node or a body, in the order of its positions."""
    return (found for found in walk(node) if isinstance(found, Stmt))


def expressions(node: Any) -> Iterator[Expr]:
    """Every expression in a node or a body, in the order of its positions."""
    return (found for found in _walk(node, False) if isinstance(found, Expr))


def called_functions(function: Function) -> list[str]:
    """The functions of the module that a function calls, each once."""
    calls = (expr.callee for expr in expressions(function.body) if isinstance(expr, Call))
    return [*dict.fromkeys(callee[1:] for callee in calls if callee.startswith("@"))]


def bodies(stmt: Stmt) -> Iterator[Body]:
    """The bodies that a statement holds; an else or an init that is not there is none."""
    held = (getattr(stmt, each.name) for each in FORMS[type(stmt)].bodies)
    return (body for body in held if body is not None)


def buffers(node: Any) -> Iterator[Buffer]:
    """Every buffer that is declared in a node or a body."""
    return (found for found in walk(node) if isinstance(found, Buffer))


def rebuilt(node: Any, change: Callable[[Any], Any], *, definitions: bool = True) -> Any:
    """The node with `change` done to each node right below it; the same object if nothing changed."""
    changed = {}
    for name in reversed(_holders(node.__class__, definitions) or ()):
        before = getattr(node, name)
        after = _changed(before, change)
        if after is not before:
            changed[name] = after
    return replace(node, **changed) if changed else node


def _changed(item: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(item, tuple):
        after: list[Any] = []
        same = True
        for inner in item:
            result = _changed(inner, change)
            if isinstance(inner, Stmt) and isinstance(result, tuple):
                after.extend(result)
                same = False
            else:
                after.append(result)
                same = same and result is inner
        return item if same else tuple(after)
    if _holders(item.__class__, True) is not None:
        return change(item)
    return _changed_mapping(item, change) if isinstance(item, dict) else item


def _changed_mapping(item: Any, change: Callable[[Any], Any]) -> Any:
    after = {key: change(inner) if is_dataclass(inner) else inner for key, inner in item.items()}
    return item if all(after[key] is item[key] for key in item) else after


def map_expressions(node: Node, change: Callable[[Expr], Expr]) -> Node:
    """The node with every expression changed, from the inside out."""

    def inner(found: Any) -> Any:
        below = rebuilt(found, inner, definitions=False)
        return change(below) if isinstance(below, Expr) else below

    return _start(node, inner)


def map_statements(node: Node, change: Callable[[Stmt], Stmt | Body]) -> Node:
    """The node with every statement replaced by another one or by several, from the inside out."""

    def inner(found: Any) -> Any:
        if isinstance(found, Expr):
            return found
        below = rebuilt(found, inner)
        return change(below) if isinstance(below, Stmt) else below

    return _start(node, inner)


def map_buffers(node: Node, change: Callable[[Buffer], Buffer]) -> Node:
    """The node with every declared buffer changed."""

    def inner(found: Any) -> Any:
        below = rebuilt(found, inner)
        return change(below) if isinstance(below, Buffer) else below

    return _start(node, inner)


def _start(node: Node, inner: Callable[[Any], Any]) -> Node:
    found: Node = _changed(node, inner) if isinstance(node, tuple) else inner(node)
    return found


def replace_statements(node: Node, by: Mapping[int, Stmt | Body]) -> Node:
    """Replace the statements at these positions. Does not look inside a replacement."""
    return _replaced(node, by, Stmt)


def replace_expressions(node: Node, by: Mapping[int, Expr]) -> Node:
    """Replace the expressions at these positions. Does not look inside a replacement."""
    return _replaced(node, by, Expr)


def _replaced(node: Node, by: Mapping[int, Any], kind: type) -> Node:
    position = -1

    def inner(found: Any) -> Any:
        nonlocal position
        if isinstance(found, kind):
            position += 1
            if position in by:
                found_at = position
                position += sum(
                    1
                    for item in _walk(tuple(children(found, definitions=False)), False)
                    if isinstance(item, kind)
                )
                return by[found_at]
        return rebuilt(found, inner, definitions=False)

    return _start(node, inner)


def with_function(module: Module, name: str, function: Function) -> Module:
    """The module with one function replaced, its place kept."""
    return Module({key: function if key == name else item for key, item in module.functions.items()})


def renamed(function: Function, names: Mapping[str, str]) -> Function:
    """The function with these names replaced; those that the table lacks stay."""

    def change(node: Any) -> Any:
        return _named(rebuilt(node, change), names)

    found: Function = rebuilt(function, change)
    return found


def renamed_in(node: Any, names: Mapping[str, str]) -> Any:
    """An expression, a statement or a body with these names replaced."""

    def change(found: Any) -> Any:
        return _named(rebuilt(found, change), names)

    return tuple(change(item) for item in node) if isinstance(node, tuple) else change(node)


def with_buffer(function: Function, buffer: Buffer) -> Function:
    """The function with this buffer where one of its name was; its addresses are typed as its own.

    What is matched to a region of it takes its scope and alignment, which TVM wants to fit.
    """
    pointer = pointer_to(buffer.dtype, buffer.scope)
    found = (each for each in walk(function) if isinstance(each, Match) and each.source.buffer == buffer.name)
    matched = {each.buffer.name for each in found}

    def like(one: Buffer) -> Buffer:
        if one.name in matched:
            return replace(one, scope=buffer.scope, align=buffer.align)
        return buffer if one.name == buffer.name else one

    def typed(expr: Expr) -> Expr:
        match expr:
            case Call("buffer_data" | "address_of", (BufferRef(name) | Load(name), *_)) if (
                name == buffer.name
            ):
                return expr if expr.dtype == pointer else replace(expr, dtype=pointer)
        return expr

    return map_expressions(map_buffers(function, like), typed)


def _named(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, Var | Buffer | Thread):
        new = names.get(node.name, node.name)
        return node if new == node.name else replace(node, name=new)
    if isinstance(node, Load | Store | BufferRef | Region):
        new = names.get(node.buffer, node.buffer)
        return node if new == node.buffer else replace(node, buffer=new)
    return node


def free_name(taken: set[str], wish: str) -> str:
    """The wish, or with a number after it the first that is not taken yet; it is taken then."""
    found, count = wish, 0
    while found in taken:
        count += 1
        found = f"{wish}_{count}"
    taken.add(found)
    return found


def substituted(node: Any, values: Mapping[str, Expr]) -> Any:
    """An expression, a statement or a body with variables replaced by expressions of their type."""

    def change(found: Any) -> Any:
        if isinstance(found, Var) and found.name in values:
            return values[found.name]
        return rebuilt(found, change)

    return tuple(change(item) for item in node) if isinstance(node, tuple) else change(node)
