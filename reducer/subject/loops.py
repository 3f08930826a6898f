"""A module of TVM's loops as the moves see it: the typed tree, with the inputs of its first function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import onnx

from corpus.case import Case
from corpus.tir.document import to_bytes
from corpus.tir.scopes import problems
from corpus.tir.tree import Function, Module
from corpus.tir.walk import with_function
from corpus.values import Value
from oracles.tir.interpreter import interpret
from reducer.subject.onnx import Subject


@dataclass(frozen=True)
class LoopSubject(Subject):
    """The smallest failing module so far. Its ONNX `model` is an empty one and is never looked at.

    `must_be_defined` says that the original's behaviour is defined: then a candidate's must be as well, so
    that no report rests on an index out of its buffer or an integer divided by zero.
    """

    module: Module = field(kw_only=True)
    must_be_defined: bool = field(default=False, kw_only=True)

    @classmethod
    def of(cls, case: Case, module: Module) -> LoopSubject:
        """The subject of a whole case."""
        is_defined = not interpret(module, case.inputs).reason
        return cls(
            onnx.ModelProto(),
            case.inputs,
            passes=case.passes,
            module=module,
            must_be_defined=is_defined,
        )

    def case(self, like: Case) -> Case:
        """This subject as a case with the target, settings and origin of `like`."""
        return self.sequenced(replace(like, program=self.document, inputs=self.inputs))

    @cached_property
    def document(self) -> bytes:
        """The module as it is saved."""
        return to_bytes(self.module)

    def embedded(self) -> LoopSubject:
        """Itself: nothing stands outside of the document."""
        return self

    @cached_property
    def is_valid(self) -> bool:
        """Whether the module is well-formed, and defined where it must be."""
        if problems(self.module):
            return False
        return not self.must_be_defined or not interpret(self.module, self.inputs).reason

    @property
    def main(self) -> Function:
        """The function that is run."""
        return self.module.main

    def with_main(self, function: Function, inputs: Mapping[str, Value] | None = None) -> LoopSubject:
        """The subject with another first function; only the inputs that it takes."""
        given = self.inputs if inputs is None else inputs
        taken = {item.name: given[item.name] for item in function.params}
        return self.with_module(with_function(self.module, self.module.entry, function), taken)

    def with_module(self, module: Module, inputs: Mapping[str, Value] | None = None) -> LoopSubject:
        """The subject with another module."""
        return replace(self, module=module, inputs=self.inputs if inputs is None else inputs)
