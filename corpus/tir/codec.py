"""Trees as JSON values and back: every node by its form, with each name and type looked up.

The document is printed from these values, and the worker builds TVM's nodes from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeAlias, cast

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
        domain = _PARTS["Range"](self, item["domain"]) if "domain" in item else None
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


_BY_FORM: Final = ("Range", "Region", "Axis", "Match")

# How fields are written and read, by what their types say; all others stand for themselves.
_WRITE: Final = {
    **dict.fromkeys(("Expr", "Inner", *_BY_FORM), "_WRITERS[{0}.__class__](to, {0})"),
    "Var": "to.define({0})",
    "Body": "to.body({0})",
    **dict.fromkeys(("Buffer", "View"), "to.buffer({0})"),
    "Thread": "to.thread({0})",
    "About": "to.about({0})",
    "Data": "dict({0})",
}
_READ: Final = {
    **dict.fromkeys(("Expr", "Inner"), "by.expression({0})"),
    **{kind: f"_PARTS[{kind!r}](by, {{0}})" for kind in _BY_FORM},
    "Var": "by.define({0})",
    "Body": "by.body({0})",
    **dict.fromkeys(("Buffer", "View"), "by.buffer({0})"),
    "BufferName": "by.buffer_name({0})",
    "Thread": "by.thread({0})",
    "About": "by.about({0})",
    "Data": "dict({0})",
    "DType": "forms.checked_type({0})",
    "Lanes": "forms.lane_count({0})",
    "LoopKind": "forms.loop_kind({0})",
    "Word": "forms.word({0})",
}


def _value(each: FormField, table: Mapping[str, str], source: str) -> str:
    """The Python expression that writes or reads a field's value."""
    text = table.get(each.one, "{0}")
    return f"[{text.format('each')} for each in {source}]" if each.is_many else text.format(source)


def _compiled(lines: Iterable[str], kind: type) -> Any:
    """The function of some lines of Python, as `dataclasses` makes an `__init__`: as fast as one by hand."""
    space = {"make": kind}
    exec("\n    ".join(lines), globals(), space)
    return space["coded"]


def _writer(kind: type, form: Form) -> Write:
    """The function that writes a node of a kind as a list."""

    def written(each: FormField) -> str:
        return _value(each, _WRITE, f"node.{each.name}")

    def unless_usual(each: FormField) -> str:
        return f"if node.{each.name} != {each.default!r}: " if each.is_optional else ""

    head = [] if form.tag == "_" else [repr(form.tag)]
    items = [("*" if each.is_spliced else "") + written(each) for each in form.items if not each.is_optional]
    lines = ["def coded(to, node):", f"found = [{', '.join(head + items)}]"]
    lines += [f"{unless_usual(each)}found.append({written(each)})" for each in form.items if each.is_optional]
    for members in filter(None, (form.options, form.bodies)):
        lines.append("more = {}")
        lines += [f"{unless_usual(each)}more[{each.key!r}] = {written(each)}" for each in members]
        lines.append("if more: found.append(more)")
    return cast(Write, _compiled([*lines, "return found"], kind))


def _reader(kind: type, form: Form) -> Read:
    """The function that reads the list of a node of a kind: its own names once its operands are read."""
    tag = [] if form.tag == "_" else ["_"]
    objects = ["*more"] * bool(form.options) + ["bodies"] * bool(form.bodies)
    sources = {each.name: (*_place(each), each.name) for each in form.items}
    for each in form.options:
        sources[each.name] = "", f"more[{each.key!r}]", f"{each.key!r} in more"
    for each in form.bodies:
        sources[each.name] = "", f"bodies[{each.key!r}]", f"{each.key!r} in bodies"
    parts = [*tag, *(sources[each.name][0] for each in form.items), *objects]
    lines = ["def coded(by, item, make=make):", f"{', '.join(parts)}, = item"]
    lines += ["more = forms.members(more[0]) if more else {}"] * bool(form.options)
    order, found = sorted(form.every, key=lambda each: each.phase), []
    is_plain = [each.name for each in order] == [each.name for each in fields(kind)]
    for each in order:
        _, source, is_there = sources[each.name]
        value = _value(each, _READ, source)
        value = f"tuple({value})" if each.is_many else value
        text = f"{value} if {is_there} else {each.default!r}" if each.is_optional else value
        found.append(text if is_plain else f"{each.name}={text}")
    return cast(Read, _compiled([*lines, f"return make({', '.join(found)})"], kind))


def _place(each: FormField) -> tuple[str, str]:
    """How a field's JSON is unpacked from the list, and the expression that it is then."""
    name = each.name
    if each.is_optional:
        return f"*{name}", f"{name}[0]"
    if each.is_spliced and not each.is_many:
        return f"{name}0, {name}1", f"({name}0, {name}1)"
    return ("*" if each.is_spliced else "") + name, name


_PARTS: Final[dict[str, Read]] = {
    kind.__name__: _reader(kind, forms.FORMS[kind]) for kind in (Range, Region, Match, Axis)
}
_WRITERS: Final[dict[type, Write]] = {
    **{kind: _writer(kind, form) for kind, form in forms.FORMS.items()},
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
