"""The tree as JSON values: what the document is printed from and what the worker builds TVM's nodes from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from corpus.tir.tree import (
    Alloc,
    Assert,
    Attr,
    Axis,
    Bind,
    Block,
    Body,
    Break,
    Continue,
    Declare,
    Evaluate,
    For,
    Function,
    If,
    Json,
    Match,
    Return,
    Seq,
    Stmt,
    Store,
    Thread,
    While,
)
from corpus.tir.types import is_float
from corpus.tir.values import (
    Binary,
    Broadcast,
    Buffer,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Let,
    Load,
    Ramp,
    Range,
    Region,
    Select,
    Shuffle,
    Text,
    Unary,
    Var,
    type_of,
)


class Encoder:
    """Writes one function. It remembers which variables are defined, to say the type of the others."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._in_buffer = False

    def function(self, function: Function) -> Json:
        """Return a function's object."""
        self._known |= {item.name for item in function.params if isinstance(item, Var)}
        return {
            "params": [self._param(item) for item in function.params],
            "returns": function.returns,
            "attrs": dict(function.attrs),
            "body": self.body(function.body),
        }

    def body(self, body: Body) -> list[Json]:
        """Return the statements of a body."""
        return [self.statement(stmt) for stmt in body]

    def statement(self, stmt: Stmt) -> list[Json]:
        """Return a statement's list."""
        return _STATEMENTS[type(stmt)](self, stmt)

    def expression(self, expr: Expr) -> Json:
        """Return an expression: a name, a literal or a list."""
        return _EXPRESSIONS[type(expr)](self, expr)

    def expressions(self, items: tuple[Expr, ...]) -> list[Json]:
        """Several expressions."""
        return [self.expression(item) for item in items]

    def buffer(self, buffer: Buffer) -> Json:
        """Return a buffer's object; what is as usual is left out."""
        parts: dict[str, Json] = {
            "name": buffer.name,
            "shape": [self._dim(item) for item in buffer.shape],
            "dtype": buffer.dtype,
        }
        if buffer.strides:
            parts["strides"] = [self._dim(item) for item in buffer.strides]
        if buffer.offset != plain_offset(buffer.shape):
            parts["offset"] = self._dim(buffer.offset)
        plain = {"scope": "global", "align": 64, "offset_factor": 1, "tiled": False}
        told = {key: getattr(buffer, key) for key in plain}
        return parts | {key: value for key, value in told.items() if value != plain[key]}

    def region(self, region: Region) -> Json:
        """Return a region: the buffer's name and `[first, extent]` for each dim."""
        return [region.buffer, *(self.range(item) for item in region.ranges)]

    def range(self, item: Range) -> Json:
        """Return a range: where it begins and how long it is."""
        return [self.expression(item.min), self.expression(item.extent)]

    def define(self, var: Var) -> list[Json]:
        """Return a variable's name and type, known from here on."""
        self._known.add(var.name)
        return [var.name, var.dtype]

    def thread(self, thread: Thread) -> Json:
        """Write the thread that a loop is bound to."""
        parts: dict[str, Json] = {"tag": thread.tag, "name": thread.name, "dtype": thread.dtype}
        if thread.domain is not None:
            parts["domain"] = self.range(thread.domain)
        return {**parts, "kind": thread.kind}

    def _param(self, item: Buffer | Var) -> Json:
        return self.buffer(item) if isinstance(item, Buffer) else [item.name, item.dtype]

    def _dim(self, item: Expr) -> Json:
        """Return an expression of a buffer: a variable that nothing defined yet is given its type there."""
        self._in_buffer = True
        found = self.expression(item)
        self._in_buffer = False
        return found

    def var(self, expr: Var) -> Json:
        """Return a variable's name."""
        is_new = self._in_buffer and expr.name not in self._known
        return ["var", *self.define(expr)] if is_new else expr.name


def plain_offset(shape: tuple[Expr, ...]) -> Const:
    """Return the offset of a buffer that has none, in the type that TVM gives it."""
    return Const(0, type_of(shape[0]) if shape else "int32")


def _const(expr: Const) -> Json:
    if expr.dtype == "bool":
        return bool(expr.value)
    if is_float(expr.dtype):
        value = float(expr.value)
        plain = expr.dtype == "float32" and math.isfinite(value)
        return value if plain else f"{value!r}:{expr.dtype}"
    return int(expr.value) if expr.dtype == "int32" else f"{int(expr.value)}:{expr.dtype}"


def _call(encoder: Encoder, expr: Call) -> Json:
    args = encoder.expressions(expr.args)
    last = expr.args[-1] if expr.args else Text("")
    is_plain = not isinstance(last, Text | BufferRef) and not expr.callee.startswith("@")
    if is_plain and type_of(last) == expr.dtype:
        return [expr.callee, *args]
    return ["call", expr.callee, expr.dtype, *args]


_EXPRESSIONS: Final[dict[type, Callable[[Encoder, Any], Json]]] = {
    Var: Encoder.var,
    Const: lambda encoder, expr: _const(expr),
    Text: lambda encoder, expr: ["text", expr.value],
    BufferRef: lambda encoder, expr: ["buffer", expr.buffer],
    Binary: lambda encoder, expr: [expr.op, encoder.expression(expr.a), encoder.expression(expr.b)],
    Unary: lambda encoder, expr: [expr.op, encoder.expression(expr.a)],
    Cast: lambda encoder, expr: ["cast", expr.dtype, encoder.expression(expr.value)],
    Select: lambda encoder, expr: [
        "select",
        *encoder.expressions((expr.condition, expr.then, expr.other)),
    ],
    Ramp: lambda encoder, expr: ["ramp", *encoder.expressions((expr.base, expr.stride)), expr.lanes],
    Broadcast: lambda encoder, expr: ["broadcast", encoder.expression(expr.value), expr.lanes],
    Shuffle: lambda encoder, expr: [
        "shuffle",
        encoder.expressions(expr.vectors),
        encoder.expressions(expr.indices),
    ],
    Let: lambda encoder, expr: [
        "let",
        *encoder.define(expr.var),
        *encoder.expressions((expr.value, expr.body)),
    ],
    Load: lambda encoder, expr: ["load", expr.buffer, *encoder.expressions(expr.indices)],
    Call: _call,
}


def _for(encoder: Encoder, stmt: For) -> list[Json]:
    bounds = encoder.expressions((stmt.min, stmt.extent))
    more: dict[str, Json] = {}
    if stmt.step is not None:
        more["step"] = encoder.expression(stmt.step)
    if stmt.thread is not None:
        more["thread"] = encoder.thread(stmt.thread)
    if stmt.annotations:
        more["annotations"] = dict(stmt.annotations)
    head = ["for", *encoder.define(stmt.var), *bounds, stmt.kind, *([more] if more else [])]
    return [*head, {"body": encoder.body(stmt.body)}]


def _if(encoder: Encoder, stmt: If) -> list[Json]:
    bodies = {"then": encoder.body(stmt.then)}
    if stmt.other is not None:
        bodies["else"] = encoder.body(stmt.other)
    return ["if", encoder.expression(stmt.condition), bodies]


def _alloc(encoder: Encoder, stmt: Alloc) -> list[Json]:
    more = [dict(stmt.annotations)] if stmt.annotations else []
    return ["alloc", encoder.buffer(stmt.buffer), *more]


def _attr(encoder: Encoder, stmt: Attr) -> list[Json]:
    node: Json = stmt.node
    if isinstance(node, Thread):
        encoder.define(Var(node.name, node.dtype))
        node = {"thread": encoder.thread(node)}
    elif isinstance(node, Expr):
        node = {"expr": encoder.expression(node)}
    return ["attr", node, stmt.key, encoder.expression(stmt.value), {"body": encoder.body(stmt.body)}]


def _axis(encoder: Encoder, axis: Axis) -> Json:
    bounds = encoder.expressions((axis.domain.min, axis.domain.extent, axis.value))
    return [*encoder.define(axis.var), axis.kind, *bounds]


def _match(encoder: Encoder, match: Match) -> Json:
    source = encoder.region(match.source)
    return [encoder.buffer(match.buffer), source]


def _block(encoder: Encoder, stmt: Block) -> list[Json]:
    parts: dict[str, Json] = {}
    if stmt.predicate != Const(True, "bool"):
        parts["predicate"] = encoder.expression(stmt.predicate)
    parts["axes"] = [_axis(encoder, axis) for axis in stmt.axes]
    parts["reads"] = [encoder.region(region) for region in stmt.reads]
    parts["writes"] = [encoder.region(region) for region in stmt.writes]
    if stmt.allocs:
        parts["allocs"] = [encoder.buffer(buffer) for buffer in stmt.allocs]
    if stmt.matches:
        parts["matches"] = [_match(encoder, match) for match in stmt.matches]
    if stmt.annotations:
        parts["annotations"] = dict(stmt.annotations)
    init = {"init": encoder.body(stmt.init)} if stmt.init is not None else {}
    return ["block", stmt.name, parts, {**init, "body": encoder.body(stmt.body)}]


_STATEMENTS: Final[dict[type, Callable[[Encoder, Any], list[Json]]]] = {
    Store: lambda encoder, stmt: [
        "store",
        stmt.buffer,
        encoder.expressions(stmt.indices),
        encoder.expression(stmt.value),
    ],
    Bind: lambda encoder, stmt: ["bind", *encoder.define(stmt.var), encoder.expression(stmt.value)],
    Alloc: _alloc,
    Declare: lambda encoder, stmt: [
        "declare",
        encoder.buffer(stmt.buffer),
        encoder.expression(stmt.data),
    ],
    For: _for,
    While: lambda encoder, stmt: [
        "while",
        encoder.expression(stmt.condition),
        {"body": encoder.body(stmt.body)},
    ],
    If: _if,
    Assert: lambda encoder, stmt: [
        "assert",
        encoder.expression(stmt.condition),
        stmt.kind,
        list(stmt.message),
    ],
    Evaluate: lambda encoder, stmt: ["evaluate", encoder.expression(stmt.value)],
    Return: lambda encoder, stmt: ["return", encoder.expression(stmt.value)],
    Break: lambda encoder, stmt: ["break"],
    Continue: lambda encoder, stmt: ["continue"],
    Attr: _attr,
    Seq: lambda encoder, stmt: ["seq", {"body": encoder.body(stmt.body)}],
    Block: _block,
}
