"""A module as TVMScript, as a TVM developer would write it: for people, for diffs, and for the scripts of
reports.

Where an operator of Python would let TVM's builder fold constants away, the node is spelt out (`T.Add(1,
2)`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from corpus.tir.codec import Decoder
from corpus.tir.scopes import defined_names
from corpus.tir.script_expressions import text_of, texts
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
    Module,
    Return,
    Seq,
    Stmt,
    Store,
    Thread,
    While,
)
from corpus.tir.values import Binary, Buffer, Const, Expr, Load, Range, Region, Var, plain_offset, type_of
from corpus.tir.walk import children, free_name, renamed, walk, with_function

LOOPS: Final = {
    "serial": "T.serial",
    "parallel": "T.parallel",
    "vectorized": "T.vectorized",
    "unrolled": "T.unroll",
    "thread": "T.thread_binding",
}
HEAD = "from tvm.script import ir as I\nfrom tvm.script import tirx as T\n\n\n"
_READ = ("Module", "T")
"""Names that the text itself reads: a function's own stand with an underscore."""


def print_text(module: Module) -> str:
    """The module as TVMScript, with its imports."""
    return HEAD + "\n".join(module_lines(module)) + "\n"


def entered(module: Module) -> Module:
    """The module with its first function visible from outside, so that it can be called when it is built."""
    attrs = {"global_symbol": module.entry, **module.main.attrs}
    return with_function(module, module.entry, replace(module.main, attrs=attrs))


def module_lines(module: Module) -> list[str]:
    """The lines of the class under `@I.ir_module`."""
    lines = ["@I.ir_module", "class Module:"]
    for position, (key, function) in enumerate(module.functions.items()):
        lines += [""] * (position > 0)
        lines += [f"    {line}" if line else "" for line in _Printer(module).function(key, function)]
    return lines


def function_lines(name: str, function: Function) -> list[str]:
    """The lines of one function, decorated."""
    return _Printer(Module({name: function})).function(name, function)


def head_of(stmt: Stmt) -> str:
    """The first line of a statement's text, without the colon before what it holds."""
    return _Printer(Module({})).stmt(stmt)[0].removesuffix(":")


class _Printer:
    """Prints one function."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.is_blocks = True
        self.outermost: Stmt | None = None

    def function(self, name: str, function: Function) -> list[str]:
        function = _readable(function)
        attrs = dict(function.attrs)
        self.is_blocks = attrs.pop("s_tir", False) is True
        options = ["private=True"] * ("global_symbol" not in attrs) + ["s_tir=True"] * self.is_blocks
        if attrs.get("global_symbol") == name:
            attrs.pop("global_symbol")
        plain = all(_is_plain(item, self.is_blocks) for item in function.params)
        params = ", ".join(self.param(item, plain) for item in function.params)
        returns = {"void": "", "missing": ""}.get(function.returns, f" -> T.{function.returns}")
        lines = [f"@T.prim_func({', '.join(options)})" if options else "@T.prim_func"]
        lines.append(f"def {name}({params}){returns}:")
        body = [f"T.func_attr({self.mapping(attrs)})"] if attrs else []
        body += self.symbols(function) + ([] if plain else self.matched(function))
        self.outermost = function.body[0] if len(function.body) == 1 else None
        body += self.body(function.body, bool(body))
        return [*lines, *_indented(body)]

    def param(self, item: Buffer | Var, plain: bool) -> str:
        if isinstance(item, Var):
            return f"{item.name}: {self.type(item.dtype)}"
        if not plain:
            return f"{item.name}_handle: T.handle"
        more = "" if item.scope == "global" else f", scope={item.scope!r}"
        return f"{item.name}: T.Buffer({self.dims(item.shape)}, {item.dtype!r}{more})"

    def symbols(self, function: Function) -> list[str]:
        """Variables that no statement defines: dims of buffers, names within an expression."""
        given = {item.name for item in function.params if isinstance(item, Var)}
        for found in walk(function.body):
            if isinstance(found, (For | Bind, Axis)):
                given.add(found.var.name)
            elif isinstance(found, Thread):
                given.add(found.name)
        used = {one.name: one.dtype for one in walk(function) if isinstance(one, Var)}
        return [f"{name} = T.{dtype}()" for name, dtype in used.items() if name not in given]

    def matched(self, function: Function) -> list[str]:
        """Each buffer matched to its handle."""
        return [
            f"{one.name} = T.match_buffer({one.name}_handle, {self.buffer(one)})" for one in function.buffers
        ]

    # Buffers and what stands around

    def buffer(self, one: Buffer) -> str:
        parts = [self.dims(one.shape), repr(one.dtype)]
        if one.strides:
            parts.append(f"strides={self.dims(one.strides)}")
        if one.offset != _offset_unsaid(one):
            parts.append(f"elem_offset={text_of(one.offset)}")
        if one.scope != "global":
            parts.append(f"scope={one.scope!r}")
        if one.align != 64:
            parts.append(f"align={one.align}")
        if one.offset_factor != 1:
            parts.append(f"offset_factor={one.offset_factor}")
        if one.tiled and self.is_blocks:
            parts.append(f"layout=T.TileLayout(T.S[{self.dims(one.shape)}])")
        elif not one.tiled and not self.is_blocks:
            parts.append("layout=None")
        return ", ".join(parts)

    def dims(self, items: tuple[Expr, ...]) -> str:
        inner = ", ".join(text_of(item) for item in items)
        return f"({inner},)" if len(items) == 1 else f"({inner})"

    def type(self, dtype: str) -> str:
        if dtype.startswith("ptr:"):
            _, element, scope = dtype.split(":", 2)
            return f"T.handle({element!r}, {scope!r})"
        return f"T.{dtype}"

    def region(self, region: Region) -> str:
        return f"{region.buffer}[{', '.join(map(self.range, region.ranges)) or '()'}]"

    def range(self, item: Range) -> str:
        one = Const(1, type_of(item.min))  # what the parser gives a single index
        if item.extent == one:
            return text_of(item.min)
        return f"{text_of(item.min)}:{self.stop(item.min, item.extent)}"

    def stop(self, first: Expr, extent: Expr) -> str:
        if isinstance(first, Const) and first.value == 0:
            return text_of(extent)
        ends = [item.value for item in (first, extent) if isinstance(item, Const)]
        if len(ends) == 2 and not any(isinstance(end, float) for end in ends):
            return text_of(Const(int(sum(ends)), type_of(first)))
        return text_of(Binary("add", first, extent))

    def mapping(self, items: Mapping[str, Any]) -> str:
        return "{" + ", ".join(f"{key!r}: {self.data(item)}" for key, item in items.items()) + "}"

    def data(self, item: Any) -> str:
        if isinstance(item, list):
            return f"[{', '.join(map(self.data, item))}]"
        if not isinstance(item, dict):
            return repr(item)
        if "target" in item:
            return f"T.target({item['target']!r})"
        if "map" in item:
            return self.mapping(item["map"])
        if "buffer" in item:
            return str(item["buffer"])
        try:
            return text_of(Decoder().expression(item["expr"]))
        except (ValueError, LookupError, TypeError):
            return repr(item)

    # Statements

    def body(self, body: Body, something: bool = False) -> list[str]:
        lines = [line for stmt in body for line in self.stmt(stmt)]
        return lines or ([] if something else ["T.evaluate(0)"])

    def stmt(self, stmt: Stmt) -> list[str]:
        return _STATEMENTS[type(stmt)](self, stmt)

    def within(self, head: str, body: Body) -> list[str]:
        return [head, *_indented(self.body(body))]

    def loop(self, stmt: For) -> list[str]:
        from_zero = isinstance(stmt.min, Const) and stmt.min.value == 0 and stmt.step is None
        parts = [] if from_zero else [text_of(stmt.min)]
        parts.append(self.stop(stmt.min, stmt.extent))
        if stmt.thread is not None:
            parts.append(f"thread={stmt.thread.tag!r}")
        if stmt.step is not None:
            parts.append(f"step={text_of(stmt.step)}")
        if stmt.annotations:
            parts.append(f"annotations={self.mapping(stmt.annotations)}")
        name = "range" if stmt.kind == "serial" and not stmt.annotations and stmt.step is None else ""
        return self.within(
            f"for {stmt.var.name} in {name or LOOPS[stmt.kind]}({', '.join(parts)}):", stmt.body
        )

    def branch(self, stmt: If) -> list[str]:
        lines = self.within(f"if {text_of(stmt.condition)}:", stmt.then)
        return lines if stmt.other is None else [*lines, *self.within("else:", stmt.other)]

    def bind(self, stmt: Bind) -> list[str]:
        if stmt.var.dtype.startswith(("ptr:", "handle")):
            return [f"{stmt.var.name} = T.bind({text_of(stmt.value)})"]
        return [f"{stmt.var.name}: T.let[T.{stmt.var.dtype}] = {text_of(stmt.value)}"]

    def alloc(self, stmt: Alloc) -> list[str]:
        more = f", annotations={self.mapping(stmt.annotations)}" if stmt.annotations else ""
        return [f"{stmt.buffer.name} = T.alloc_buffer({self.buffer(stmt.buffer)}{more})"]

    def attribute(self, stmt: Attr) -> list[str]:
        value = text_of(stmt.value)
        if isinstance(stmt.node, Thread) and stmt.key == "thread_extent":
            head = f"with T.launch_thread({stmt.node.tag!r}, {value}) as {stmt.node.name}:"
        else:
            node = text_of(stmt.node) if isinstance(stmt.node, Expr) else self.node(stmt.node)
            head = f"with T.attr({node}, {stmt.key!r}, {value}):"
        return self.within(head, stmt.body)

    def node(self, node: Any) -> str:
        if not isinstance(node, Thread):
            return self.data(node)
        domain = self.range(node.domain).replace(":", ", ") if node.domain is not None else "None"
        return f"T.iter_var({node.name or 'None'}, {domain}, 'ThreadIndex', {node.tag!r})"

    def block(self, stmt: Block) -> list[str]:
        inner = [self.axis(axis) for axis in stmt.axes]
        if not (isinstance(stmt.predicate, Const) and stmt.predicate.value is True):
            inner.append(f"T.where({text_of(stmt.predicate)})")
        is_root = stmt is self.outermost and stmt.name == "root" and not stmt.axes
        if stmt.reads or stmt.writes or not is_root or _accesses(stmt):
            inner.append(f"T.reads({', '.join(map(self.region, stmt.reads))})")
            inner.append(f"T.writes({', '.join(map(self.region, stmt.writes))})")
        if stmt.annotations:
            inner.append(f"T.sblock_attr({self.mapping(stmt.annotations)})")
        inner += [f"{one.name} = T.sblock_alloc_buffer({self.buffer(one)})" for one in stmt.allocs]
        inner += [
            f"{one.buffer.name} = T.match_buffer({self.region(one.source)}, {self.buffer(one.buffer)})"
            for one in stmt.matches
        ]
        if stmt.init is not None:
            inner += self.within("with T.init():", stmt.init)
        inner += self.body(stmt.body)
        return [f"with T.sblock({stmt.name!r}):", *_indented(inner)]

    def axis(self, axis: Axis) -> str:
        kind = {"ordered": "scan"}.get(axis.kind, axis.kind)
        bounds = text_of(axis.domain.extent)
        if not (isinstance(axis.domain.min, Const) and axis.domain.min.value == 0):
            bounds = f"({text_of(axis.domain.min)}, {self.stop(axis.domain.min, axis.domain.extent)})"
        return f"{axis.var.name} = T.axis.{kind}({bounds}, {text_of(axis.value)})"


def _readable(function: Function) -> Function:
    taken = {*defined_names(function)}
    own = {name: free_name(taken, f"{name}_") for name in _READ if name in taken}
    return renamed(function, own) if own else function


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _offset_unsaid(buffer: Buffer) -> Const:
    """The offset that TVM's builder gives a buffer without one; `plain_offset` is the document's."""
    return plain_offset(buffer.shape) if buffer.shape else Const(0, "int64")


def _accesses(node: Any) -> bool:
    """Whether a block accesses memory outside of the blocks in it; the parser adds such regions."""
    found = (item for item in children(node) if not isinstance(item, Block))
    return any(isinstance(item, Load | Store) or _accesses(item) for item in found)


def _is_plain(item: Buffer | Var, is_blocks: bool) -> bool:
    """Whether a parameter can be written in the signature."""
    if isinstance(item, Var):
        return True
    tiled = item.tiled == (not is_blocks and bool(item.shape))  # what the builder takes for granted
    told = (item.strides, item.scope, item.align, item.offset_factor, not tiled)
    zero = item.offset == _offset_unsaid(item)
    return told == ((), "global", 64, 1, False) and zero and all(isinstance(dim, Const) for dim in item.shape)


_STATEMENTS: Final[dict[type, Callable[[_Printer, Any], list[str]]]] = {
    Store: lambda printer, stmt: [f"{stmt.buffer}[{texts(stmt.indices) or '()'}] = {text_of(stmt.value)}"],
    Bind: _Printer.bind,
    Alloc: _Printer.alloc,
    Declare: lambda printer, stmt: [
        f"{stmt.buffer.name} = T.decl_buffer({printer.buffer(stmt.buffer)}, data={text_of(stmt.data)})"
    ],
    For: _Printer.loop,
    While: lambda printer, stmt: printer.within(f"while {text_of(stmt.condition)}:", stmt.body),
    If: _Printer.branch,
    Assert: lambda printer, stmt: [
        f"assert {text_of(stmt.condition)}, ({stmt.kind!r}, {list(stmt.message)!r})"
    ],
    Evaluate: lambda printer, stmt: [f"T.evaluate({text_of(stmt.value)})"],
    Return: lambda printer, stmt: [f"return {text_of(stmt.value)}"],
    Break: lambda printer, stmt: ["T.Break()"],
    Continue: lambda printer, stmt: ["T.Continue()"],
    Attr: _Printer.attribute,
    Seq: lambda printer, stmt: printer.body(stmt.body),
    Block: _Printer.block,
}
