"""The tree of JSON values: what `encode.py` writes, read with every name and type looked up.

ValueError, LookupError or TypeError say what is wrong; who opens a user's file makes one `UserError` of
these.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable
from typing import Final

from corpus.tir.encode import plain_offset
from corpus.tir.intrinsics import INTRINSICS
from corpus.tir.tree import (
    LOOPS,
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
from corpus.tir.types import is_float, lanes, parts, with_lanes
from corpus.tir.values import (
    BINARY,
    UNARY,
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


class Decoder:
    """Reads one function; it knows the types of the variables and buffers that were defined so far."""

    def __init__(self) -> None:
        self._vars: dict[str, str] = {}
        self._buffers: dict[str, str] = {}

    def function(self, item: Json) -> Function:
        """Return the function of an object."""
        for one in item["params"]:
            if isinstance(one, list):
                self.define(*one)
        params = tuple(self._param(one) for one in item["params"])
        return Function(params, self.body(item["body"]), _returns(item["returns"]), dict(item["attrs"]))

    def body(self, items: Json) -> Body:
        """Return the statements of a list."""
        return tuple(self.statement(item) for item in items)

    def statement(self, item: Json) -> Stmt:
        """Return the statement of a list; ValueError for a kind that is not known."""
        kind, *rest = item
        if kind not in _STATEMENTS:
            raise ValueError(f"statement {str(kind)[:40]!r} is not known")
        return _STATEMENTS[kind](self, *rest)

    def expression(self, item: Json) -> Expr:
        """Return the expression of a name, a literal or a list."""
        if isinstance(item, list):
            return self._compound(*item)
        if isinstance(item, str):
            return _literal(item) if ":" in item else Var(item, self._type_of_var(item))
        if isinstance(item, bool):
            return Const(item, "bool")
        return Const(item, "float32" if isinstance(item, float) else "int32")

    def expressions(self, items: Json) -> tuple[Expr, ...]:
        """Several expressions."""
        return tuple(self.expression(item) for item in items)

    def buffer(self, item: Json) -> Buffer:
        """Return the buffer of an object, known from here on."""
        shape = self.expressions(item["shape"])
        strides = self.expressions(item.get("strides", ()))
        offset = self.expression(item["offset"]) if "offset" in item else plain_offset(shape)
        parts(item["dtype"])
        self._buffers[item["name"]] = item["dtype"]
        return Buffer(
            _name(item["name"]),
            shape,
            item["dtype"],
            strides,
            offset,
            _text(item.get("scope", "global")),
            int(item.get("align", 64)),
            int(item.get("offset_factor", 1)),
            bool(item.get("tiled", False)),
        )

    def define(self, name: str, dtype: str) -> Var:
        """Return a variable, known from here on."""
        parts(dtype)
        self._vars[_name(name)] = dtype
        return Var(name, dtype)

    def region(self, item: Json) -> Region:
        """Return the region of a list."""
        buffer, *ranges = item
        self.type_of_buffer(buffer)
        return Region(buffer, tuple(self.range(one) for one in ranges))

    def range(self, item: Json) -> Range:
        """Return the range of a pair."""
        first, extent = item
        return Range(self.expression(first), self.expression(extent))

    def thread(self, item: Json) -> Thread:
        """Read the thread that a loop is bound to."""
        domain = self.range(item["domain"]) if "domain" in item else None
        parts(item["dtype"])
        name = _name(item["name"]) if item["name"] else ""
        return Thread(_text(item["tag"]), name, item["dtype"], domain, int(item["kind"]))

    def type_of_buffer(self, name: str) -> str:
        """Return a buffer's type; ValueError where none has the name."""
        if name not in self._buffers:
            raise ValueError(f"buffer {str(name)[:40]!r} is not there")
        return self._buffers[name]

    def _type_of_var(self, name: str) -> str:
        if name not in self._vars:
            raise ValueError(f"variable {name[:40]!r} is not there")
        return self._vars[name]

    def _param(self, item: Json) -> Buffer | Var:
        return self.buffer(item) if isinstance(item, dict) else self.define(*item)

    def _compound(self, kind: str, *rest: Json) -> Expr:
        if kind in _EXPRESSIONS:
            return _EXPRESSIONS[kind](self, *rest)
        if kind in BINARY:
            a, b = rest
            return Binary(kind, self.expression(a), self.expression(b))
        if kind in UNARY:
            (a,) = rest
            return Unary(kind, self.expression(a))
        return self._call(kind, rest)

    def _call(self, callee: str, rest: tuple[Json, ...]) -> Call:
        args = self.expressions(rest)
        if callee not in INTRINSICS:
            raise ValueError(f"expression {str(callee)[:40]!r} is not known")
        if not args:
            raise ValueError(f"{callee} has no operand, so its type must be told")
        return Call(callee, args, type_of(args[-1]))


def _text(item: Json) -> str:
    if not isinstance(item, str):
        raise TypeError(f"{str(item)[:40]!r} is no text")
    return item


def _name(item: Json) -> str:
    """Return a name that stands for itself in any language: nothing in it can be read as code."""
    text = _text(item)
    if not text.isidentifier() or not text.isascii() or keyword.iskeyword(text):
        raise ValueError(f"{text[:40]!r} is no name")
    return text


def _returns(item: Json) -> str:
    if item not in ("void", "missing"):
        parts(_text(item))
    return str(item)


def _literal(text: str) -> Const:
    value, dtype = text.split(":", 1)
    parts(dtype)
    if not is_float(dtype):
        return Const(int(value), dtype)
    number = float(value)
    return Const(number if number == number else math.nan, dtype)  # one NaN, which equals itself in tuples


def _load(decoder: Decoder, buffer: str, *indices: Json) -> Load:
    places = decoder.expressions(indices)
    dtype = decoder.type_of_buffer(buffer)
    width = lanes(type_of(places[-1])) if places else 1
    return Load(buffer, places, with_lanes(dtype, lanes(dtype) * width) if width > 1 else dtype)


def _told(decoder: Decoder, callee: str, dtype: str, *args: Json) -> Call:
    parts(dtype)
    if callee not in INTRINSICS and not callee.startswith("@"):
        raise ValueError(f"intrinsic {str(callee)[:40]!r} is not known")
    return Call(callee, decoder.expressions(args), dtype)


def _let(decoder: Decoder, name: str, dtype: str, value: Json, body: Json) -> Let:
    given = decoder.expression(value)
    return Let(decoder.define(name, dtype), given, decoder.expression(body))


def _cast(decoder: Decoder, dtype: str, value: Json) -> Cast:
    parts(dtype)
    return Cast(dtype, decoder.expression(value))


def _buffer_ref(decoder: Decoder, name: str) -> BufferRef:
    decoder.type_of_buffer(name)
    return BufferRef(name)


_EXPRESSIONS: Final[dict[str, Callable[..., Expr]]] = {
    "var": Decoder.define,
    "text": lambda decoder, value: Text(_text(value)),
    "buffer": _buffer_ref,
    "cast": _cast,
    "select": lambda decoder, *items: Select(*decoder.expressions(items)),
    "ramp": lambda decoder, base, stride, count: Ramp(
        decoder.expression(base), decoder.expression(stride), _lanes(count)
    ),
    "broadcast": lambda decoder, value, count: Broadcast(decoder.expression(value), _lanes(count)),
    "shuffle": lambda decoder, vectors, indices: Shuffle(
        decoder.expressions(vectors), decoder.expressions(indices)
    ),
    "let": _let,
    "load": _load,
    "call": _told,
}


def _lanes(count: Json) -> int:
    if not isinstance(count, int) or not 1 < count <= 1 << 16:
        raise ValueError(f"{str(count)[:40]!r} is no number of lanes")
    return count


def _for(decoder: Decoder, name: str, dtype: str, first: Json, extent: Json, kind: str, *rest: Json) -> For:
    if kind not in LOOPS:
        raise ValueError(f"loop {str(kind)[:40]!r} is not known")
    *told, bodies = rest
    more = told[0] if told else {}
    begin, length = decoder.expressions((first, extent))
    var = decoder.define(name, dtype)
    step = decoder.expression(more["step"]) if "step" in more else None
    thread = decoder.thread(more["thread"]) if "thread" in more else None
    annotations = dict(more.get("annotations", {}))
    return For(var, begin, length, kind, decoder.body(bodies["body"]), step, thread, annotations)


def _if(decoder: Decoder, condition: Json, bodies: Json) -> If:
    other = decoder.body(bodies["else"]) if "else" in bodies else None
    return If(decoder.expression(condition), decoder.body(bodies["then"]), other)


def _attr(decoder: Decoder, node: Json, key: str, value: Json, bodies: Json) -> Attr:
    about: Json = node
    if isinstance(node, dict) and "thread" in node:
        about = decoder.thread(node["thread"])
        decoder.define(about.name, about.dtype)
    elif isinstance(node, dict) and "expr" in node:
        about = decoder.expression(node["expr"])
    return Attr(about, _text(key), decoder.expression(value), decoder.body(bodies["body"]))


def _axis(decoder: Decoder, name: str, dtype: str, kind: str, *bounds: Json) -> Axis:
    first, extent, value = decoder.expressions(bounds)
    return Axis(decoder.define(name, dtype), Range(first, extent), kind, value)


def _match(decoder: Decoder, buffer: Json, source: Json) -> Match:
    region = decoder.region(source)
    return Match(decoder.buffer(buffer), region)


def _block(decoder: Decoder, name: str, told: Json, bodies: Json) -> Block:
    predicate = decoder.expression(told.get("predicate", True))
    axes = tuple(_axis(decoder, *item) for item in told["axes"])
    allocs = tuple(decoder.buffer(item) for item in told.get("allocs", ()))
    matches = tuple(_match(decoder, *item) for item in told.get("matches", ()))
    reads = tuple(decoder.region(item) for item in told["reads"])
    writes = tuple(decoder.region(item) for item in told["writes"])
    init = decoder.body(bodies["init"]) if "init" in bodies else None
    body = decoder.body(bodies["body"])
    annotations = dict(told.get("annotations", {}))
    return Block(_text(name), axes, reads, writes, body, init, predicate, allocs, matches, annotations)


def _bind(decoder: Decoder, name: str, dtype: str, value: Json) -> Bind:
    given = decoder.expression(value)
    return Bind(decoder.define(name, dtype), given)


def _store(decoder: Decoder, buffer: str, indices: Json, value: Json) -> Store:
    decoder.type_of_buffer(buffer)
    return Store(buffer, decoder.expressions(indices), decoder.expression(value))


def _declare(decoder: Decoder, buffer: Json, data: Json) -> Declare:
    given = decoder.expression(data)
    return Declare(decoder.buffer(buffer), given)


_STATEMENTS: Final[dict[str, Callable[..., Stmt]]] = {
    "store": _store,
    "bind": _bind,
    "alloc": lambda decoder, buffer, *more: Alloc(decoder.buffer(buffer), dict(more[0]) if more else {}),
    "declare": _declare,
    "for": _for,
    "while": lambda decoder, condition, bodies: While(
        decoder.expression(condition), decoder.body(bodies["body"])
    ),
    "if": _if,
    "assert": lambda decoder, condition, kind, message: Assert(
        decoder.expression(condition), tuple(map(_text, message)), _text(kind)
    ),
    "evaluate": lambda decoder, value: Evaluate(decoder.expression(value)),
    "return": lambda decoder, value: Return(decoder.expression(value)),
    "break": lambda decoder: Break(),
    "continue": lambda decoder: Continue(),
    "attr": _attr,
    "seq": lambda decoder, bodies: Seq(decoder.body(bodies["body"])),
    "block": _block,
}
