"""Whether a module is well-formed: every name defined once and before its use, every type as the rules have
it.

These are the checks that generators and the reducer make before a framework sees a program; TVM's own
verifiers come after. `problems` names the first fault of each function, in words that name the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from corpus.callees import CARRIES_CODE, PLACES, UNNAMED, may_call
from corpus.tir.forms import FORMS, Form, is_bool, is_integer, lanes, parts, with_lanes
from corpus.tir.tree import (
    Alloc,
    Attr,
    Axis,
    Bind,
    Block,
    Body,
    For,
    Function,
    If,
    Module,
    Seq,
    Stmt,
    Store,
    Thread,
    While,
    is_jump,
)
from corpus.tir.typing import expression_problem
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
    """Whether no function breaks a rule."""
    return not problems(module)


def untrusted_callees(module: Module) -> tuple[str, ...]:
    """The functions outside the allow-list that the module calls, sorted."""
    found: set[str] = set()
    for function in module.functions.values():
        found.update(key for key in _keys(function) if CARRIES_CODE.search(key))
        for expr in expressions(function.body):
            if not isinstance(expr, Call):
                continue
            if expr.callee in UNNAMED:
                found.add(expr.callee)
            elif expr.callee in PLACES:
                # The function that a call by name calls; None if the name is no text
                place = PLACES[expr.callee]
                named = expr.args[place] if place < len(expr.args) else None
                name = named.value if isinstance(named, Text) else None
                if not may_call(expr.callee, name):
                    found.add(expr.callee if name is None else name)
    return tuple(sorted(found))


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
        self._rounds: set[str] = set()

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
        if is_jump(stmt) and not self._loops:
            raise IllFormed("break outside of a loop")
        if isinstance(stmt, Seq):
            for inner in stmt.body:
                self._statement(inner)
        elif FORMS[type(stmt)].bodies:
            mark, is_loop = self._scope.mark(), isinstance(stmt, For | While)
            self._loops += is_loop
            self._node(stmt)
            self._loops -= is_loop
            self._scope.back(mark)
        else:
            self._node(stmt)

    def _node(self, node: Any) -> None:
        """Operands, then the node's own rule, then the names that it defines, then what is inside."""
        rule = _RULES.get(type(node))
        for name, check in _CHECKS[type(node)]:
            if check is None:
                if rule is not None:
                    rule(self, node)
            elif (value := getattr(node, name)) is not None:
                check(self, value)

    def _bind(self, stmt: Bind) -> None:
        _same(type_of(stmt.value), stmt.var.dtype, f"{stmt.var.name} is bound")

    def _for(self, stmt: For) -> None:
        for expr in (stmt.min, stmt.extent, *([stmt.step] if stmt.step is not None else [])):
            _same(type_of(expr), stmt.var.dtype, f"loop {stmt.var.name} runs")
        if (stmt.kind == "thread") != (stmt.thread is not None):
            raise IllFormed(f"loop {stmt.var.name} is {stmt.kind}, its thread {stmt.thread}")
        self._rounds.add(stmt.var.name)

    def _block(self, stmt: Block) -> None:
        """A block with axes knows of the loops around it by these alone."""
        _true(stmt.predicate, f"block {stmt.name}")
        around = self._rounds.intersection(self._scope.vars) if stmt.axes else ()
        used = (each.name for each in expressions((stmt.init or (), stmt.body)) if isinstance(each, Var))
        if name := next((each for each in used if each in around), ""):
            raise IllFormed(f"block {stmt.name} uses the loop {name} around it")

    def _about(self, node: Any) -> None:
        if isinstance(node, Thread):
            if node.name not in self._scope.vars:
                self._define(Var(node.name, node.dtype))
        elif isinstance(node, Expr):
            self._expression(node)

    def _axes(self, axes: tuple[Axis, ...]) -> None:
        """No axis is visible in the values of the others."""
        for axis in axes:
            if axis.kind not in ("spatial", "reduce", "ordered", "opaque"):
                raise ValueError(f"axis {axis.var.name} is of no known kind")
            for expr in (axis.domain.min, axis.domain.extent, axis.value):
                self._expression(expr)
            _same(type_of(axis.value), axis.var.dtype, f"axis {axis.var.name} is bound")
        for axis in axes:
            self._define(axis.var)

    def _store(self, stmt: Store) -> None:
        buffer = self._known(stmt.buffer)
        self._indices(buffer, stmt.indices)
        _same(type_of(stmt.value), _accessed_type(buffer, stmt.indices), f"store to {buffer.name}")

    def _view(self, buffer: Buffer) -> None:
        self._implicit(buffer)
        self._buffer(buffer)

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
            _same(expr.dtype, _accessed_type(buffer, expr.indices), f"load of {buffer.name}")
        elif isinstance(expr, Call):
            self._called(expr)

    def _called(self, call: Call) -> None:
        """A function of the module takes operands of its parameters' types; a buffer is passed by address."""
        name = call.callee.removeprefix("@")
        if name == call.callee:
            return
        if name not in self._module.functions:
            raise IllFormed(f"function {name!r} is not there")
        function = self._module.functions[name]
        wanted = [each.dtype for each in function.params if isinstance(each, Var)]
        if not function.buffers and wanted != [type_of(arg) for arg in call.args]:
            raise IllFormed(f"function {name!r} is called with operands of other types than {wanted}")

    def _known(self, name: str) -> Buffer:
        if name not in self._scope.buffers:
            raise IllFormed(f"buffer {name!r} is used where it is not defined")
        return self._scope.buffers[name]

    def _define(self, var: Var) -> None:
        self._scope.give(var.name)
        parts(var.dtype)
        self._scope.vars[var.name] = var.dtype

    def _implicit(self, buffer: Buffer) -> None:
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


def _accessed_type(buffer: Buffer, indices: tuple[Expr, ...]) -> str:
    """The type of a load or a store at these places: a vector if the last index is a vector."""
    width = lanes(type_of(indices[-1])) if indices else 1
    return with_lanes(buffer.dtype, lanes(buffer.dtype) * width)


Check: TypeAlias = Callable[[_Checker, Any], object]

_RULES: Final[dict[type, Check]] = {
    Bind: _Checker._bind,
    For: _Checker._for,
    While: lambda checker, stmt: _true(stmt.condition, "while"),
    If: lambda checker, stmt: _true(stmt.condition, "if"),
    Block: _Checker._block,
    Store: _Checker._store,
}
"""What is to hold of a statement's operands, besides that each of them is well-formed."""

_BY_ROLE: Final[dict[str, Check]] = {
    **dict.fromkeys(("Expr", "Inner"), _Checker._expression),
    "BufferName": _Checker._known,
    "Var": _Checker._define,
    "Buffer": _Checker._buffer,
    "View": _Checker._view,
    "Region": _Checker._region,
    "Match": _Checker._node,
    "About": _Checker._about,
    "Body": _Checker._body,
}


def _true(expr: Expr, what: str) -> None:
    if not is_bool(type_of(expr)):
        raise IllFormed(f"the condition of {what} is of type {type_of(expr)}")


def _checks(form: Form) -> list[tuple[str, Check | None]]:
    """The fields of a node kind with their checks, in the order of `_Checker._node`; None is its own rule.

    A block's regions are of what is outside, so they come before its own memory.
    """
    ranked: list[tuple[int, str, Check | None]] = [(1, "", None)]
    for each in form.every:
        check = _Checker._axes if each.one == "Axis" else _BY_ROLE.get(each.one)
        if check is not None:
            rank = 2 if each.role in ("tuple[Axis, ...]", "tuple[Region, ...]") else (0, 3, 4)[each.phase]
            ranked.append(
                (rank, each.name, check if each.one == "Axis" or not each.is_many else _of_each(check))
            )
    return [(name, check) for _, name, check in sorted(ranked, key=lambda item: item[0])]


def _of_each(check: Check) -> Check:
    def checks(checker: _Checker, items: tuple[Any, ...]) -> None:
        for item in items:
            check(checker, item)

    return checks


_CHECKS: Final = {kind: _checks(form) for kind, form in FORMS.items()}
