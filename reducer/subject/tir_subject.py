"""A TIR module as the moves see it: the typed tree, with the inputs of its first function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from corpus.case import Case
from corpus.tir.forms import FORMS
from corpus.tir.program import OF_BLOCKS, holds_blocks, is_rooted, to_bytes
from corpus.tir.scopes import problems
from corpus.tir.tree import (
    Alloc,
    Attr,
    Axis,
    Bind,
    Block,
    Body,
    Declare,
    For,
    Function,
    If,
    Module,
    Seq,
    Stmt,
    Store,
    While,
)
from corpus.tir.values import BufferRef, Const, Expr, Load, Region, Var
from corpus.tir.walk import (
    buffers,
    called_functions,
    expressions,
    map_statements,
    replace_expressions,
    replace_statements,
    statements,
    walk,
    with_function,
)
from corpus.values import Value
from oracles.tir.interpreter import interpret
from reducer.subject.base import Size, Subject
from reducer.subject.order import complexity, counts, size


@dataclass(frozen=True)
class TirSubject(Subject):
    """The smallest failing module so far.

    `must_be_defined` says how far the original's behaviour is defined: so far a candidate's must be as well,
    so that no report rests on an index out of its buffer or a result out of its type. `must_do_something`
    says that the original has no loop of no rounds: then a candidate has none. `must_be_rooted` says that
    TVM's text can say where the original's blocks stand: then it can say a candidate's. `at` names the
    function that moves change, if it is another than the first.
    """

    module: Module
    must_be_defined: int = field(default=0, kw_only=True)
    must_do_something: bool = field(default=True, kw_only=True)
    must_be_rooted: bool = field(default=False, kw_only=True)
    at: str = field(default="", kw_only=True, compare=False)

    @classmethod
    def of(cls, case: Case, module: Module) -> TirSubject:
        """The subject of a whole case."""
        return cls(
            module,
            inputs=case.inputs,
            passes=case.passes,
            must_be_defined=_definedness(module, case.inputs),
            must_do_something=not _has_no_rounds(module),
            must_be_rooted=all(map(is_rooted, module.functions.values())),
        )

    def measured(self) -> Size:
        """The sizes in the order of `size`; a statement counts as a node."""
        values = [value for value in self.inputs.values() if isinstance(value, np.ndarray)]
        weight = sum(map(complexity, values))
        return (*counts(self.module, self.inputs), weight, len(self.passes), len(self.document))

    @property
    def told_to_passes(self) -> bytes:
        """The module: its contents decide which passes may follow which."""
        return self.document

    def case(self, like: Case) -> Case:
        """This subject as a case with the target, settings and origin of `like`."""
        return self.sequenced(replace(like, program=self.document, inputs=self.inputs))

    @cached_property
    def document(self) -> bytes:
        """The module as it is saved."""
        return to_bytes(self.module)

    def embedded(self) -> Self:
        """Itself: nothing stands outside of the document."""
        return self

    @cached_property
    def is_valid(self) -> bool:
        """Whether the module is well-formed, and defined where it must be."""
        if problems(self.module) or _has_no_elements(self.module):
            return False
        if self.must_do_something and _has_no_rounds(self.module):
            return False
        if self.must_be_rooted and not all(map(is_rooted, self.module.functions.values())):
            return False
        return not self.must_be_defined or _definedness(self.module, self.inputs) >= self.must_be_defined

    @property
    def main(self) -> Function:
        """The function that is run, or the one that moves change."""
        return self.module.functions.get(self.at, self.module.main)

    def with_main(self, function: Function, inputs: Mapping[str, Value] | None = None) -> TirSubject:
        """The subject with another first function, or the one at `at`; only the inputs that it takes.

        Once no block is left, it is not called a function of blocks any more.
        """
        if holds_blocks(self.main) and not holds_blocks(function):
            attrs = {key: value for key, value in function.attrs.items() if key != OF_BLOCKS}
            function = replace(function, attrs=attrs)
        if self.at in self.module.functions:
            return self.with_module(with_function(self.module, self.at, function))
        given = self.inputs if inputs is None else inputs
        taken = {item.name: given[item.name] for item in function.params}
        return self.with_module(with_function(self.module, self.module.entry, function), taken)

    def with_module(self, module: Module, inputs: Mapping[str, Value] | None = None) -> TirSubject:
        """The subject with another module."""
        return replace(self, module=module, inputs=self.inputs if inputs is None else inputs)


def _definedness(module: Module, inputs: Mapping[str, Value]) -> int:
    """Whether nothing that a module does is defined, or all but some elements of its results, or all."""
    found = interpret(module, inputs, trials=0)
    return (not found.reason) + found.is_defined


def _has_no_rounds(module: Module) -> bool:
    """Whether a loop or an axis is there for nothing, which some passes rightly refuse."""
    found = [*walk(tuple(module.functions.values()))]
    extents = [each.extent for each in found if isinstance(each, For)]
    extents += [each.domain.extent for each in found if isinstance(each, Axis)]
    return any(isinstance(extent, Const) and extent.value < 1 for extent in extents)


def _has_no_elements(module: Module) -> bool:
    """Whether a buffer holds nothing: a reader of the report would stop there."""
    found = (dim for one in module.functions.values() for each in buffers(one) for dim in each.shape)
    return any(isinstance(dim, Const) and dim.value < 1 for dim in found)


def used_names(node: Any) -> set[str]:
    """The variables and buffers that a node reads, writes or names in a region."""
    return {item.name for item in walk(node) if isinstance(item, Var)} | _named_buffers(node)


def _named_buffers(node: Any) -> set[str]:
    return {item.buffer for item in walk(node) if isinstance(item, Load | Store | BufferRef | Region)}


def unused_names(function: Function) -> frozenset[str]:
    """The names that the function defines but does not use: one of them may be the point."""
    defined = {name for stmt in statements(function.body) if (name := _defines(stmt)) is not None}
    blocks = (stmt for stmt in statements(function.body) if isinstance(stmt, Block))
    defined |= {one.name for stmt in blocks for one in stmt.allocs}
    return frozenset(defined - _uses(function))


def _uses(function: Function) -> set[str]:
    """The used names as `used_names` does, without places of definition."""
    found = {item.name for item in expressions(function.body) if isinstance(item, Var)}
    return found | _named_buffers(function.body)


def without_leftovers(function: Function, kept: frozenset[str] = frozenset()) -> Function:
    """The function without definitions that nothing uses but for those kept, and loops that do nothing."""
    before = None
    while before is not function:
        before = function
        function = map_statements(function, partial(_tidied, always=kept))
        function = replace(function, body=_without_unused(function.body, kept))
        function = function if function != before else before
    return function


def _tidied(stmt: Stmt, always: frozenset[str]) -> Stmt | Body:
    """A statement that holds nothing any more is none; memory that `always` names stays in its block."""
    match stmt:
        case For(body=()) | While(body=()) | Attr(body=()) | Seq(body=()):
            return ()
        case If(then=(), other=None | ()):
            return ()
        case If(other=()):
            return replace(stmt, other=None)
        case Block(body=(), init=None | ()):
            return ()
        case Block():
            held = walk((stmt.body, stmt.init or ()))
            inside = {each.buffer for each in held if isinstance(each, Load | Store | BufferRef)}
            kept = {one.buffer.name for one in stmt.matches if one.buffer.name in inside}
            matches = tuple(one for one in stmt.matches if one.buffer.name in kept)
            inside |= {one.source.buffer for one in matches}
            return replace(
                stmt,
                init=stmt.init or None,
                reads=tuple(region for region in stmt.reads if region.buffer in inside),
                writes=tuple(region for region in stmt.writes if region.buffer in inside),
                allocs=tuple(one for one in stmt.allocs if one.name in inside or one.name in always),
                matches=matches,
            )
    return stmt


def _without_unused(body: Body, always: frozenset[str]) -> Body:
    """A body without definitions of what the statements after them do not name."""
    kept: list[Stmt] = []
    for stmt in reversed(body):
        inner = _inside(stmt, always)
        name = _defines(inner)
        if name is None or name in always or name in used_names(tuple(kept)):
            kept.append(inner)
    found = tuple(reversed(kept))
    same = len(found) == len(body) and all(a is b for a, b in zip(found, body, strict=True))
    return body if same else found


def _inside(stmt: Stmt, always: frozenset[str]) -> Stmt:
    changed: dict[str, Body] = {}
    for each in FORMS[type(stmt)].bodies:
        inner = getattr(stmt, each.name)
        if inner and (after := _without_unused(inner, always)) is not inner:
            changed[each.name] = after
    return replace(stmt, **changed) if changed else stmt


def _defines(stmt: Stmt) -> str | None:
    if isinstance(stmt, Bind):
        return stmt.var.name
    return stmt.buffer.name if isinstance(stmt, Alloc | Declare) else None


def with_statement(subject: TirSubject, position: int, body: Body) -> TirSubject | None:
    """The subject with the statement at a position replaced; None where that is no smaller."""
    return _with_body(subject, replace_statements(subject.main.body, {position: body}))


def with_expression(subject: TirSubject, position: int, expr: Expr) -> TirSubject | None:
    """The subject with the expression at a position replaced; None where that is no smaller."""
    return _with_body(subject, replace_expressions(subject.main.body, {position: expr}))


def _with_body(subject: TirSubject, body: Body) -> TirSubject | None:
    function = replace(subject.main, body=body)
    return if_smaller(subject, subject.with_main(without_leftovers(function, unused_names(subject.main))))


def uncalled(module: Module) -> list[str]:
    """The functions after the first one that none calls."""
    called = {name for one in module.functions.values() for name in called_functions(one)}
    return [name for name in [*module.functions][1:] if name not in called]


def without_uncalled(subject: TirSubject) -> TirSubject:
    """The subject without functions that none calls."""
    gone = uncalled(subject.module)
    return subject.with_module(
        Module({key: one for key, one in subject.module.functions.items() if key not in gone})
    )


def if_smaller(subject: TirSubject, found: TirSubject) -> TirSubject | None:
    """The candidate, where it is smaller than the subject and valid."""
    return found if size(found) < size(subject) and found.is_valid else None
