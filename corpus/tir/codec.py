"""Trees as JSON values and back: every node by its form, with each name and type looked up.

The document is printed from these values, and the worker builds TVM's nodes from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from corpus.tir import forms
from corpus.tir.forms import (
    Form,
    FormField,
    Json,
    checked_type,
    identifier,
    is_float,
    lanes,
    parts,
    with_lanes,
    word,
)
from corpus.tir.tree import Axis, Body, Function, Match, Stmt, Thread
from corpus.tir.typing import INTRINSICS
from corpus.tir.values import (
    PLAIN_BUFFER,
    Buffer,
    BufferRef,
    Call,
    Const,
    Expr,
    Load,
    Range,
    Region,
    Text,
    Var,
    plain_offset,
    type_of,
)

Write: TypeAlias = Callable[["Encoder", Any], Any]
Read: TypeAlias = Callable[["Decoder", Any], Any]


class Encoder:
    """Writes one function. It remembers which variables are defined; a buffer's dim types any other."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._in_buffer = False

    def function(self, function: Function) -> Json:
        """A function's object."""
        self._known |= {item.name for item in function.params if isinstance(item, Var)}
        return {
            "params": [
                self.buffer(item) if isinstance(item, Buffer) else [item.name, item.dtype]
                for item in function.params
            ],
            "returns": function.returns,
            "attrs": dict(function.attrs),
            "body": self.body(function.body),
        }

    def body(self, body: Body) -> list[Json]:
        """The statements of a body."""
        return [_WRITERS[stmt.__class__](self, stmt) for stmt in body]

    def node(self, node: Any) -> Json:
        """A statement, an expression or a part of one."""
        return _WRITERS[node.__class__](self, node)

    def nodes(self, items: tuple[Any, ...]) -> list[Json]:
        """Several nodes."""
        return [_WRITERS[item.__class__](self, item) for item in items]

    def buffer(self, buffer: Buffer) -> Json:
        """A buffer's object; what is as usual is left out."""
        found: dict[str, Json] = {
            "name": buffer.name,
            "shape": self._dims(buffer.shape),
            "dtype": buffer.dtype,
        }
        if buffer.strides:
            found["strides"] = self._dims(buffer.strides)
        if buffer.offset != plain_offset(buffer.shape):
            found["offset"] = self._dims((buffer.offset,))[0]
        for key, usual in PLAIN_BUFFER.items():
            if (value := getattr(buffer, key)) != usual:
                found[key] = value
        return found

    def define(self, var: Var) -> list[Json]:
        """A variable's name and type, known from here on."""
        self._known.add(var.name)
        return [var.name, var.dtype]

    def thread(self, thread: Thread) -> Json:
        """The thread that a loop is bound to."""
        found: dict[str, Json] = {"tag": thread.tag, "name": thread.name, "dtype": thread.dtype}
        if thread.domain is not None:
            found["domain"] = self.node(thread.domain)
        return {**found, "kind": thread.kind}

    def about(self, node: Json | Thread | Expr) -> Json:
        """What an attribute is about."""
        if isinstance(node, Thread):
            self.define(Var(node.name, node.dtype))
            return {"thread": self.thread(node)}
        return {"expr": self.node(node)} if isinstance(node, Expr) else node

    def _dims(self, items: tuple[Expr, ...]) -> list[Json]:
        """Expressions of a buffer: the type of a variable that nothing defined yet is said there."""
        self._in_buffer = True
        found = self.nodes(items)
        self._in_buffer = False
        return found

    def var(self, expr: Var) -> Json:
        """A variable's name."""
        is_new = self._in_buffer and expr.name not in self._known
        return ["var", *self.define(expr)] if is_new else expr.name

    def const(self, expr: Const) -> Json:
        """A literal: an `int32`, a finite `float32` and a `bool` bare, others with their type."""
        if expr.dtype == "bool":
            return bool(expr.value)
        if is_float(expr.dtype):
            value = float(expr.value)
            plain = expr.dtype == "float32" and math.isfinite(value)
            return value if plain else f"{value!r}:{expr.dtype}"
        return int(expr.value) if expr.dtype == "int32" else f"{int(expr.value)}:{expr.dtype}"

    def call(self, expr: Call) -> Json:
        """A call; its type is said unless it is that of the last operand."""
        args = self.nodes(expr.args)
        last = expr.args[-1] if expr.args else Text("")
        is_plain = not isinstance(last, Text | BufferRef) and not expr.callee.startswith("@")
        if is_plain and type_of(last) == expr.dtype:
            return [expr.callee, *args]
        return ["call", expr.callee, expr.dtype, *args]


class Decoder:
    """Reads one function; it knows the types of the variables and buffers that were defined so far.

    ValueError, LookupError or TypeError say what is wrong; who opens a user's file makes one `UserError` of
    these.
    """

    def __init__(self) -> None:
        self._vars: dict[str, str] = {}
        self._buffers: dict[str, str] = {}

    def function(self, item: Json) -> Function:
        """The function of an object."""
        for one in item["params"]:
            if isinstance(one, list):
                self.define(one)
        params = tuple(
            self.buffer(one) if isinstance(one, dict) else self.define(one) for one in item["params"]
        )
        returns = item["returns"]
        if returns not in ("void", "missing"):
            parts(word(returns))
        return Function(params, self.body(item["body"]), str(returns), dict(item["attrs"]))

    def body(self, items: Json) -> Body:
        """The statements of a list."""
        return tuple([self.statement(item) for item in items])

    def statement(self, item: Json) -> Stmt:
        """The statement of a list; ValueError for a kind that is not known."""
        kind, *_ = item
        if kind not in _STATEMENTS:
            raise ValueError(f"statement {str(kind)[:40]!r} is not known")
        found: Stmt = _STATEMENTS[kind](self, item)
        return found

    def expression(self, item: Json) -> Expr:
        """The expression of a name, a literal or a list."""
        if isinstance(item, list):
            read = _EXPRESSIONS.get(item[0])
            return read(self, item) if read is not None else self._call(item)
        if isinstance(item, str):
            return _literal(item) if ":" in item else Var(item, self._type_of_var(item))
        if isinstance(item, bool):
            return Const(item, "bool")
        return Const(item, "float32" if isinstance(item, float) else "int32")

    def expressions(self, items: Json) -> tuple[Expr, ...]:
        """Several expressions."""
        return tuple([self.expression(item) for item in items])

    def buffer(self, item: Json) -> Buffer:
        """The buffer of an object, known from here on."""
        shape = self.expressions(item["shape"])
        strides = self.expressions(item.get("strides", ()))
        offset = self.expression(item["offset"]) if "offset" in item else plain_offset(shape)
        dtype, more = item["dtype"], {**PLAIN_BUFFER, **item}
        checked_type(dtype)
        self._buffers[item["name"]] = dtype
        layout = int(more["align"]), int(more["offset_factor"]), bool(more["tiled"])
        return Buffer(identifier(item["name"]), shape, dtype, strides, offset, word(more["scope"]), *layout)

    def define(self, item: Json) -> Var:
        """A variable of a name and a type, known from here on."""
        name, dtype = item
        checked_type(dtype)
        self._vars[identifier(name)] = dtype
        return Var(name, dtype)

    def thread(self, item: Json) -> Thread:
        """The thread that a loop is bound to."""
        domain = _READ["Range"](self, item["domain"]) if "domain" in item else None
        name = identifier(item["name"]) if item["name"] else ""
        return Thread(word(item["tag"]), name, checked_type(item["dtype"]), domain, int(item["kind"]))

    def about(self, item: Json) -> Json | Thread | Expr:
        """What an attribute is about."""
        if isinstance(item, dict) and "thread" in item:
            thread = self.thread(item["thread"])
            self.define((thread.name, thread.dtype))
            return thread
        return self.expression(item["expr"]) if isinstance(item, dict) and "expr" in item else item

    def buffer_name(self, name: Json) -> str:
        """The name of a buffer; ValueError if there is none."""
        if name not in self._buffers:
            raise ValueError(f"buffer {str(name)[:40]!r} is not there")
        return str(name)

    def load(self, item: Json) -> Load:
        """A load, of a vector if the last index is a vector."""
        _, buffer, *indices = item
        places = self.expressions(indices)
        dtype = self._buffers[self.buffer_name(buffer)]
        width = lanes(type_of(places[-1])) if places else 1
        return Load(buffer, places, with_lanes(dtype, lanes(dtype) * width) if width > 1 else dtype)

    def typed_call(self, item: Json) -> Call:
        """A call that says its type."""
        _, callee, dtype, *args = item
        checked_type(dtype)
        if callee not in INTRINSICS and not callee.startswith("@"):
            raise ValueError(f"intrinsic {str(callee)[:40]!r} is not known")
        return Call(callee, self.expressions(args), dtype)

    def _call(self, item: Json) -> Call:
        """A call of its last operand's type."""
        callee, *rest = item
        args = self.expressions(rest)
        if callee not in INTRINSICS:
            raise ValueError(f"expression {str(callee)[:40]!r} is not known")
        if not args:
            raise ValueError(f"{callee} has no operand, so its type must be told")
        return Call(callee, args, type_of(args[-1]))

    def _type_of_var(self, name: str) -> str:
        if name not in self._vars:
            raise ValueError(f"variable {name[:40]!r} is not there")
        return self._vars[name]


def _literal(text: str) -> Const:
    value, dtype = text.split(":", 1)
    checked_type(dtype)
    if not is_float(dtype):
        return Const(int(value), dtype)
    number = float(value)
    return Const(number if number == number else math.nan, dtype)  # one NaN, which equals itself in tuples


def _as_it_is(_: object, item: Json) -> Json:
    return item


# How fields are written and read, by what their types say; all others stand for themselves.
_WRITE: Final[dict[str, Write]] = {
    **dict.fromkeys(("Expr", "Inner", "Range", "Region", "Axis", "Match"), Encoder.node),
    "Var": Encoder.define,
    "Body": Encoder.body,
    **dict.fromkeys(("Buffer", "View"), Encoder.buffer),
    "Thread": Encoder.thread,
    "About": Encoder.about,
    "Data": lambda to, data: dict(data),
}
_READ: dict[str, Read] = {
    **dict.fromkeys(("Expr", "Inner"), Decoder.expression),
    "Var": Decoder.define,
    "Body": Decoder.body,
    **dict.fromkeys(("Buffer", "View"), Decoder.buffer),
    "BufferName": Decoder.buffer_name,
    "Thread": Decoder.thread,
    "About": Decoder.about,
    "Data": lambda by, item: dict(item),
    "DType": lambda by, item: forms.checked_type(item),
    "Lanes": lambda by, item: forms.lane_count(item),
    "LoopKind": lambda by, item: forms.loop_kind(item),
    "Word": lambda by, item: word(item),
}


def _writer(form: Form) -> Write:
    """The function that writes a node as a list."""

    def written(to: Encoder, node: Any) -> Json:
        found: list[Json] = [] if form.tag == "_" else [form.tag]
        for each, item in _said(form.items, to, node):
            found += item if each.is_spliced else [item]
        for members in (form.options, form.bodies):
            more = {each.key: item for each, item in _said(members, to, node)}
            found += [more] if more else []
        return found

    return written


def _said(members: tuple[FormField, ...], to: Encoder, node: Any) -> Iterator[tuple[FormField, Json]]:
    """Yield the fields that are not at a default which is left out, with what is written of them."""
    for each in members:
        value = getattr(node, each.name)
        if not each.is_optional or value != each.default:
            write = _WRITE.get(each.one, _as_it_is)
            yield each, [write(to, one) for one in value] if each.is_many else write(to, value)


def _reader(kind: type, form: Form) -> Read:
    """The function that reads the list of a node of a kind: its own names once its operands are read."""
    order = sorted(form.every, key=lambda each: each.phase)

    def read(by: Decoder, item: Json) -> Any:
        given, found = _given(form, item), {}
        for each in order:
            if each.name in given:
                one, value = _READ.get(each.one, _as_it_is), given[each.name]
                found[each.name] = (
                    tuple([one(by, part) for part in value]) if each.is_many else one(by, value)
                )
        return kind(**found)

    return read


def _given(form: Form, item: Json) -> dict[str, Json]:
    """What the list of a node says of its fields; ValueError or LookupError if it says more or less."""
    rest = list(item if form.tag == "_" else item[1:])
    bodies = forms.members(rest.pop()) if form.bodies else {}
    width = sum(2 if each.is_spliced and not each.is_many else 1 for each in form.items)
    options = forms.members(rest.pop()) if form.options and len(rest) > width else {}
    found: dict[str, Json] = {}
    for each in form.items:
        if each.is_spliced:
            count = len(rest) if each.is_many else 2
            found[each.name], rest = rest[:count], rest[count:]
        elif rest or not each.is_optional:
            found[each.name] = rest.pop(0)
    if rest:
        raise ValueError(f"{form.tag}: {len(rest)} items too many")
    for members, said in ((form.options, options), (form.bodies, bodies)):
        found |= {each.name: said[each.key] for each in members if each.key in said or not each.is_optional}
    return found


_READ |= {kind.__name__: _reader(kind, forms.FORMS[kind]) for kind in (Range, Region, Match, Axis)}
_WRITERS: Final[dict[type, Write]] = {
    **{kind: _writer(form) for kind, form in forms.FORMS.items()},
    Var: Encoder.var,
    Const: Encoder.const,
    Call: Encoder.call,
}
_READERS: Final[dict[str, Read]] = {
    **{tag: _reader(kind, forms.FORMS[kind]) for tag, kind in forms.KINDS.items()},
    "var": lambda by, item: by.define(item[1:]),
    "load": Decoder.load,
    "call": Decoder.typed_call,
}
_STATEMENTS: Final = {tag: _READERS[tag] for tag, kind in forms.KINDS.items() if issubclass(kind, Stmt)}
_EXPRESSIONS: Final = {tag: read for tag, read in _READERS.items() if tag not in _STATEMENTS}
