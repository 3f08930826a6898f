"""A graph of bindings as a subject, as far as it can be asked: its bindings look like nodes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import onnx

from corpus.case import Case
from corpus.graphs.program import Binding, GraphProgram
from corpus.values import Shape, Tensor, Value
from reducer.subject.base import NodeSubject, type_of

Describe: TypeAlias = Callable[[bytes, Mapping[str, Value]], Mapping[str, Any]]


def _undescribed(program: bytes, inputs: Mapping[str, Value]) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class GraphView(NodeSubject):
    """The smallest failing program so far.

    `nodes` is a view: one node a binding, with the last word of its operator as type. `describe` asks the
    framework for the types of a program, or for the `error` that makes it ill-formed. `shapes` are the dims
    that it told of the bindings, symbolic ones by their names; `numbers` the bindings that give a number.
    """

    program: GraphProgram
    describe: Describe = field(default=_undescribed, kw_only=True, compare=False)
    shapes: Mapping[str, Shape] = field(default_factory=dict, kw_only=True)
    numbers: frozenset[str] = field(default=frozenset(), kw_only=True)

    @cached_property
    def bindings(self) -> Mapping[str, Binding]:
        """The bindings of the main graph, by name."""
        return {binding.name: binding for binding in self.program.main.bindings}

    @cached_property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        """The bindings as nodes."""
        return tuple(map(_view, self.program.main.bindings))

    @cached_property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """List by binding the names it reads."""
        return tuple(tuple(dict.fromkeys(name for name in node.input if name)) for node in self.nodes)

    @cached_property
    def initializers(self) -> Mapping[str, onnx.TensorProto]:
        """The constants, without their values."""
        return {name: onnx.TensorProto(name=name) for name in self.program.constants}

    @cached_property
    def graph_inputs(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The inputs of the main graph, without their types."""
        return {item.name: onnx.ValueInfoProto(name=item.name) for item in self.program.main.inputs}

    @cached_property
    def graph_outputs(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The outputs of the main graph, without their types."""
        return {name: onnx.ValueInfoProto(name=name) for name in self.program.main.outputs}

    @property
    def counts(self) -> frozenset[int]:
        """Return no argument: this format does not say which arguments are counts."""
        return frozenset()

    def array(self, name: str) -> Tensor | None:
        """The values of an input or constant."""
        if name in self.program.constants:
            return self.program.constants[name]
        value = self.inputs.get(name)
        return None if isinstance(value, list) else value

    def type_of(self, name: str) -> onnx.TypeProto | None:
        """A tensor's type, where its value is known."""
        known = self.array(name)
        return type_of(known if known is not None else self.facts.values.get(name))

    def case(self, like: Case) -> Case:
        """A case of this program, otherwise like another one."""
        return self.sequenced(replace(like, program=self.document, inputs=self.inputs))

    @cached_property
    def document(self) -> bytes:
        """The program as it is saved."""
        return self.program.to_bytes()

    def embedded(self) -> Self:
        """Itself: nothing of such programs lies outside of them."""
        return self

    @cached_property
    def complaint(self) -> str:
        """The framework's reason for calling the program ill-formed; empty if it is well-formed."""
        return str(self.describe(self.document, self.inputs).get("error", ""))

    @property
    def is_valid(self) -> bool:
        """Whether the framework finds the program well-formed."""
        return not self.complaint

    def number(self, name: str) -> int | float | None:
        """The number that a binding gives; None if it gives anything else."""
        value = self.facts.values.get(name) if name in self.numbers else None
        return value.item() if isinstance(value, np.ndarray) and value.size == 1 else None

    def with_program(self, program: GraphProgram, inputs: Mapping[str, Value]) -> Self:
        """This subject with another program and only the inputs that it takes."""
        taken = {item.name: inputs[item.name] for item in program.main.inputs if item.name in inputs}
        return replace(self, program=program, inputs=taken)


def _view(binding: Binding) -> onnx.NodeProto:
    parts = binding.op.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) > 4:
        parts = parts[:-1]  # the overload
    return onnx.NodeProto(
        name=binding.name,
        op_type=parts[-1],
        domain=".".join(parts[:-1]),
        input=binding.reads,
        output=[binding.name],
    )
