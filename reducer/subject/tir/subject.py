"""A TIR module as the moves see it: the typed tree, with the inputs of its first function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from corpus.case import Case
from corpus.tir.document import to_bytes
from corpus.tir.program import OF_BLOCKS, holds_blocks, is_rooted
from corpus.tir.scopes import problems
from corpus.tir.tree import For, Function, Module
from corpus.tir.values import Const
from corpus.tir.walk import buffers, statements, with_function
from corpus.values import Value
from oracles.tir.interpreter import interpret
from reducer.subject.base import Size, Subject
from reducer.subject.order import complexity
from reducer.subject.tir_counts import counts


@dataclass(frozen=True)
class TirSubject(Subject):
    """The smallest failing module so far.

    `must_be_defined` says that the original's behaviour is defined: then a candidate's must be as well, so
    that no report rests on an index out of its buffer or an integer divided by zero. `must_do_something` says
    that the original has no loop of no rounds: then a candidate has none. `must_be_rooted` says that
    TVM's text can say where the original's blocks stand: then it can say a candidate's.
    """

    module: Module
    must_be_defined: bool = field(default=False, kw_only=True)
    must_do_something: bool = field(default=True, kw_only=True)
    must_be_rooted: bool = field(default=False, kw_only=True)

    @classmethod
    def of(cls, case: Case, module: Module) -> TirSubject:
        """The subject of a whole case."""
        is_defined = not interpret(module, case.inputs, trials=0).reason
        return cls(
            module,
            inputs=case.inputs,
            passes=case.passes,
            must_be_defined=is_defined,
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
        """Return this subject as a case with the target, settings and origin of `like`."""
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
        return not self.must_be_defined or not interpret(self.module, self.inputs, trials=0).reason

    @property
    def main(self) -> Function:
        """The function that is run."""
        return self.module.main

    def with_main(self, function: Function, inputs: Mapping[str, Value] | None = None) -> TirSubject:
        """The subject with another first function; only the inputs that it takes.

        Once no block is left, it is not called a function of blocks any more.
        """
        if holds_blocks(self.main) and not holds_blocks(function):
            attrs = {key: value for key, value in function.attrs.items() if key != OF_BLOCKS}
            function = replace(function, attrs=attrs)
        given = self.inputs if inputs is None else inputs
        taken = {item.name: given[item.name] for item in function.params}
        return self.with_module(with_function(self.module, self.module.entry, function), taken)

    def with_module(self, module: Module, inputs: Mapping[str, Value] | None = None) -> TirSubject:
        """The subject with another module."""
        return replace(self, module=module, inputs=self.inputs if inputs is None else inputs)


def _has_no_rounds(module: Module) -> bool:
    """Whether a loop is there for nothing, which some passes rightly refuse."""
    found = (stmt for one in module.functions.values() for stmt in statements(one.body))
    extents = (stmt.extent for stmt in found if isinstance(stmt, For))
    return any(isinstance(extent, Const) and extent.value < 1 for extent in extents)


def _has_no_elements(module: Module) -> bool:
    """Whether a buffer holds nothing: a reader of the report would stop there."""
    found = (dim for one in module.functions.values() for each in buffers(one) for dim in each.shape)
    return any(isinstance(dim, Const) and dim.value < 1 for dim in found)
