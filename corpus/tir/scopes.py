"""Whether a module is well-formed: every name defined once and before its use, every type as the rules have
it.

These are the checks that generators and the reducer make before a framework sees a program; TVM's own
verifiers come after. `problems` names the first fault of each function, in words that name the statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from corpus.callees import CARRIES_CODE, PLACES, UNNAMED, may_call
from corpus.tir.expressions import expression_problem
from corpus.tir.tree import (
    Alloc,
    Attr,
    Bind,
    Block,
    Body,
    Break,
    Continue,
    Declare,
    For,
    Function,
    If,
    Module,
    Seq,
    Stmt,
    Store,
    Thread,
    While,
)
from corpus.tir.types import is_bool, is_integer, lanes, parts, with_lanes
from corpus.tir.values import Buffer, BufferRef, Call, Expr, Let, Load, Region, Text, Var, type_of
from corpus.tir.walk import children, expressions, walk


class IllFormed(ValueError):
    """A module that breaks a rule of the tree."""


def problems(module: Module) -> list[str]:
    """List the problems of a module, one for each function that is not well-formed."""
    found = []
    for name, function in module.functions.items():
        try:
            _Checker(module).function(function)
        except IllFormed as error:
            found.append(f"function {name}: {error}")
    return found


def is_well_formed(module: Module) -> bool:
    """Return whether no function breaks a rule."""
    return not problems(module)


def untrusted_callees(module: Module) -> tuple[str, ...]:
    """Return the functions outside the allow-list that the module calls, sorted."""
    found: set[str] = set()
    for function in module.functions.values():
        found.update(key for key in _keys(function) if CARRIES_CODE.search(key))
        for expr in expressions(function.body):
            if not isinstance(expr, Call):
                continue
            if expr.callee in UNNAMED:
                found.add(expr.callee)
            elif expr.callee in PLACES:
                name = _named(expr)
                if not may_call(expr.callee, name):
                    found.add(expr.callee if name is None else name)
    return tuple(sorted(found))


def _named(call: Call) -> str | None:
    """Return the function that a call by name calls; None if the name is no text."""
    place = PLACES[call.callee]
    named = call.args[place] if place < len(call.args) else None
    return named.value if isinstance(named, Text) else None


def _keys(function: Function) -> Iterator[str]:
    """Yield the keys of every attribute and annotation in a function."""
    yield from function.attrs
    for found in walk(function.body):
        if isinstance(found, Attr):
            yield found.key
        elif isinstance(found, For | Block | Alloc):
            yield from found.annotations


class _Scope:
    """The names that are visible, and every name that was ever defined in the function."""

    def __init__(self) -> None:
        self.vars: dict[str, str] = {}
        self.buffers: dict[str, Buffer] = {}
        self.ever: set[str] = set()

    def mark(self) -> tuple[dict[str, str], dict[str, Buffer]]:
        return dict(self.vars), dict(self.buffers)

    def back(self, mark: tuple[dict[str, str], dict[str, Buffer]]) -> None:
        self.vars, self.buffers = mark

    def give(self, name: str) -> None:
        if not name or name in self.ever:
            raise IllFormed(f"the name {name!r} is given twice, or is none")
        self.ever.add(name)


class _Checker:
    """Checks one function of a module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._scope = _Scope()
        self._loops = 0

    def function(self, function: Function) -> None:
        """IllFormed at the first fault."""
        for item in function.params:
            if isinstance(item, Var):
                self._define(item)
        for buffer in function.buffers:
            self._implicit(buffer)
        for buffer in function.buffers:
            self._buffer(buffer)
        self._body(function.body)

    def _body(self, body: Body) -> None:
        mark = self._scope.mark()
        for stmt in body:
            self._statement(stmt)
        self._scope.back(mark)

    def _statement(self, stmt: Stmt) -> None:
        checks: dict[type, Any] = {
            Bind: self._bind,
            Alloc: self._alloc,
            Declare: self._declare,
            For: self._for,
            While: self._while,
            If: self._if,
            Attr: self._attr,
            Seq: self._seq,
            Block: self._block,
            Store: self._store,
        }
        if isinstance(stmt, Break | Continue) and not self._loops:
            raise IllFormed(f"{type(stmt).__name__.lower()} outside of a loop")
        check = checks.get(type(stmt))
        if check is not None:
            check(stmt)
            return
        for child in children(stmt):
            self._expression(child)

    def _bind(self, stmt: Bind) -> None:
        self._expression(stmt.value)
        _same(type_of(stmt.value), stmt.var.dtype, f"{stmt.var.name} is bound")
        self._define(stmt.var)

    def _alloc(self, stmt: Alloc) -> None:
        self._buffer(stmt.buffer)

    def _declare(self, stmt: Declare) -> None:
        self._expression(stmt.data)
        self._implicit(stmt.buffer)
        self._buffer(stmt.buffer)

    def _for(self, stmt: For) -> None:
        for expr in (stmt.min, stmt.extent, *([stmt.step] if stmt.step is not None else [])):
            self._expression(expr)
            _same(type_of(expr), stmt.var.dtype, f"loop {stmt.var.name} runs")
        if (stmt.kind == "thread") != (stmt.thread is not None):
            raise IllFormed(f"loop {stmt.var.name} is {stmt.kind}, its thread {stmt.thread}")
        self._inside((stmt.var,), stmt.body)

    def _while(self, stmt: While) -> None:
        self._truth(stmt.condition, "while")
        self._inside((), stmt.body)

    def _if(self, stmt: If) -> None:
        self._truth(stmt.condition, "if")
        self._body(stmt.then)
        self._body(stmt.other or ())

    def _attr(self, stmt: Attr) -> None:
        self._expression(stmt.value)
        mark = self._scope.mark()
        if isinstance(stmt.node, Thread):
            if stmt.node.name not in self._scope.vars:
                self._define(Var(stmt.node.name, stmt.node.dtype))
        elif isinstance(stmt.node, Expr):
            self._expression(stmt.node)
        self._body(stmt.body)
        self._scope.back(mark)

    def _seq(self, stmt: Seq) -> None:
        for inner in stmt.body:
            self._statement(inner)

    def _block(self, stmt: Block) -> None:
        mark = self._scope.mark()
        self._truth(stmt.predicate, f"block {stmt.name}")
        for axis in stmt.axes:
            for expr in (axis.domain.min, axis.domain.extent, axis.value):
                self._expression(expr)
            _same(type_of(axis.value), axis.var.dtype, f"axis {axis.var.name} is bound")
        for axis in stmt.axes:
            self._define(axis.var)
        for region in (
            *stmt.reads,
            *stmt.writes,
        ):  # of what is outside: a block's own memory is its own matter
            self._region(region)
        for buffer in stmt.allocs:
            self._buffer(buffer)
        for match in stmt.matches:
            self._region(match.source)
            self._implicit(match.buffer)
            self._buffer(match.buffer)
        self._body(stmt.init or ())
        self._body(stmt.body)
        self._scope.back(mark)

    def _store(self, stmt: Store) -> None:
        buffer = self._known(stmt.buffer)
        for expr in (*stmt.indices, stmt.value):
            self._expression(expr)
        self._indices(buffer, stmt.indices)
        width = lanes(type_of(stmt.indices[-1])) if stmt.indices else 1
        _same(
            type_of(stmt.value),
            with_lanes(buffer.dtype, lanes(buffer.dtype) * width),
            f"store to {buffer.name}",
        )

    def _inside(self, given: tuple[Var, ...], body: Body) -> None:
        mark = self._scope.mark()
        for var in given:
            self._define(var)
        self._loops += 1
        self._body(body)
        self._loops -= 1
        self._scope.back(mark)

    def _truth(self, expr: Expr, what: str) -> None:
        self._expression(expr)
        if not is_bool(type_of(expr)):
            raise IllFormed(f"the condition of {what} is of type {type_of(expr)}")

    def _region(self, region: Region) -> None:
        buffer = self._known(region.buffer)
        if len(region.ranges) != len(buffer.shape):
            raise IllFormed(
                f"a region of {buffer.name} has {len(region.ranges)} dims, not {len(buffer.shape)}"
            )
        for item in region.ranges:
            self._expression(item.min)
            self._expression(item.extent)

    def _indices(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        if len(indices) != len(buffer.shape):
            raise IllFormed(f"{buffer.name} has {len(buffer.shape)} dims, not {len(indices)}")
        for position, index in enumerate(indices):
            last = position == len(indices) - 1
            if not is_integer(type_of(index)) or (lanes(type_of(index)) > 1 and not last):
                raise IllFormed(f"index {position} of {buffer.name} is of type {type_of(index)}")

    def _expression(self, expr: Expr) -> None:
        """A let's name is visible in its body alone."""
        if isinstance(expr, Let):
            self._expression(expr.value)
            _same(type_of(expr.value), expr.var.dtype, f"{expr.var.name} is bound")
            mark = self._scope.mark()
            self._define(expr.var)
            self._expression(expr.body)
            self._scope.back(mark)
            return
        for child in children(expr):
            self._expression(child)
        self._names(expr)
        problem = expression_problem(expr)
        if problem:
            raise IllFormed(problem)

    def _names(self, expr: Expr) -> None:
        if isinstance(expr, Var):
            if expr.name not in self._scope.vars:
                raise IllFormed(f"variable {expr.name!r} is read where it is not defined")
            _same(expr.dtype, self._scope.vars[expr.name], f"variable {expr.name} is read")
        elif isinstance(expr, BufferRef):
            self._known(expr.buffer)
        elif isinstance(expr, Load):
            buffer = self._known(expr.buffer)
            self._indices(buffer, expr.indices)
            width = lanes(type_of(expr.indices[-1])) if expr.indices else 1
            _same(expr.dtype, with_lanes(buffer.dtype, lanes(buffer.dtype) * width), f"load of {buffer.name}")
        elif isinstance(expr, Call):
            callee = expr.callee.removeprefix("@")
            if callee != expr.callee and callee not in self._module.functions:
                raise IllFormed(f"function {callee!r} is not there")

    def _known(self, name: str) -> Buffer:
        if name not in self._scope.buffers:
            raise IllFormed(f"buffer {name!r} is used where it is not defined")
        return self._scope.buffers[name]

    def _define(self, var: Var) -> None:
        self._scope.give(var.name)
        parts(var.dtype)
        self._scope.vars[var.name] = var.dtype

    def _implicit(self, buffer: Buffer) -> None:
        """A bare variable among a buffer's dims, strides and offset is defined by it."""
        for expr in (*buffer.shape, *buffer.strides, buffer.offset):
            if isinstance(expr, Var) and expr.name not in self._scope.vars:
                self._define(expr)

    def _buffer(self, buffer: Buffer) -> None:
        for expr in (*buffer.shape, *buffer.strides, buffer.offset):
            self._expression(expr)
            if not is_integer(type_of(expr)):
                raise IllFormed(f"a dim of {buffer.name} is of type {type_of(expr)}")
        if buffer.strides and len(buffer.strides) != len(buffer.shape):
            raise IllFormed(f"{buffer.name} has {len(buffer.strides)} strides and {len(buffer.shape)} dims")
        self._scope.give(buffer.name)
        self._scope.buffers[buffer.name] = buffer


def defined_names(node: Any) -> Iterator[str]:
    """Yield every name that a node, a body or a function defines, in order."""
    if isinstance(node, Function):
        yield from (item.name for item in node.params)
        node = node.body
    for found in walk(node):
        if isinstance(found, Bind | For | Let):
            yield found.var.name
        elif isinstance(found, Block):
            yield from (axis.var.name for axis in found.axes)
        elif isinstance(found, Buffer):
            yield found.name
        elif isinstance(found, Attr) and isinstance(found.node, Thread):
            yield found.node.name


def _same(found: str, wanted: str, what: str) -> None:
    if found != wanted:
        raise IllFormed(f"{what} with {found}, not {wanted}")
