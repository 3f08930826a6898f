"""Where an optimised run parts from the un-optimised one: told by the values of both, tensor by tensor.

The program as the optimiser left it is run with every intermediate recorded. What both programs name is
compared; going up from a wrong output leads to the first tensor that is wrong beyond the tolerance, and from
there to the nodes that the optimiser changed and at which the values begin to differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import onnx

from corpus.case import Case
from corpus.onnx.graph import free_names, producers
from corpus.onnx.types import infer, inferred_types, untyped_copy
from corpus.values import Value
from oracles.numerics.compare import Tolerance, compare
from oracles.probes.record import Recording
from reducer.subject.base import Facts, agrees, type_of
from reducer.subject.onnx.nodesets import OnnxView, ordered_reads

EXACT = Tolerance(0.0, 0.0)


class Grade(IntEnum):
    """The distance between a tensor of the optimised program and the un-optimised tensor of that name."""

    EQUAL = 0
    NEAR = 1
    FAR = 2


def find_divergence(
    subject: OnnxView, optimised: onnx.ModelProto, values: Mapping[str, Value], tolerance: Tolerance
) -> tuple[str, ...]:
    """The tensors that the optimiser made anew and that differ before the first wrong output.

    The nodes that make them are to blame; there are none if no value tells.
    """
    runs = _Runs(subject, optimised, values, tolerance)
    wrong = next((name for name in subject.graph_outputs if runs.grade(name) is Grade.FAR), None)
    if wrong is None:
        return ()
    first = _first_far(runs, wrong)
    changed = [first] if runs.is_changed(first) else _changed_above(runs, first)
    made = {name for tensor in changed for name in runs.remade(tensor)}
    return tuple(sorted(made, key=lambda name: subject.producer.get(name, -1)))


def _first_far(runs: _Runs, name: str) -> str:
    """Up from a wrong tensor to one that is wrong on operands that are not."""
    while above := next((each for each in runs.sources(name) if runs.grade(each) is Grade.FAR), ""):
        name = above
    return name


def _changed_above(runs: _Runs, first: str) -> list[str]:
    """The nearest changed tensors above, with the changed ones right above them."""
    changed, todo, seen = list[str](), [first], {first}
    while todo:
        name = todo.pop()
        is_changed = runs.is_changed(name)
        changed += [name] if is_changed else []
        for source in runs.sources(name):
            is_boundary = is_changed and not runs.is_changed(source)
            if source not in seen and not is_boundary and runs.grade(source) is not Grade.EQUAL:
                seen.add(source)
                todo.append(source)
    return changed


@dataclass(frozen=True)
class _Runs:
    """Both programs with the values that they computed; only tensors that a node of both makes count."""

    subject: OnnxView
    optimised: onnx.ModelProto
    values: Mapping[str, Value]
    tolerance: Tolerance

    @cached_property
    def _makers(self) -> Mapping[str, onnx.NodeProto]:
        return producers(self.optimised.graph)

    @cached_property
    def _grades(self) -> dict[str, Grade | None]:
        return {}

    def grade(self, name: str) -> Grade | None:
        """Return None for a tensor that only one of the programs has."""
        if name not in self._grades:
            self._grades[name] = self._compared(name)
        return self._grades[name]

    def _compared(self, name: str) -> Grade | None:
        known = self.subject.facts.values
        if name not in known or name not in self.values or name not in self._makers:
            return None
        if compare(name, known[name], self.values[name], self.tolerance) is not None:
            return Grade.FAR
        is_equal = compare(name, known[name], self.values[name], EXACT) is None
        return Grade.EQUAL if is_equal else Grade.NEAR

    def sources(self, name: str) -> tuple[str, ...]:
        """The tensors, known to both programs, from which an optimised tensor is computed."""
        return tuple(dict.fromkeys(self._sources(name)))

    def _sources(self, name: str) -> Iterator[str]:
        for operand in ordered_reads(self._makers[name]):
            if operand in self._makers and self.grade(operand) is None:
                yield from self.sources(operand)
            elif operand in self._makers:
                yield operand

    def is_changed(self, name: str) -> bool:
        """Whether another node makes it, or the same one makes another value of the same operands."""
        old = self.subject.producer.get(name)
        new = self._makers[name]
        if old is None or not self._does_the_same(self.subject.nodes[old], new):
            return True
        return all(self.grade(source) is Grade.EQUAL for source in self.sources(name))

    def _does_the_same(self, old: onnx.NodeProto, new: onnx.NodeProto) -> bool:
        """But for constants, which the optimiser folds and renames, and defaults, which it writes out."""
        folded = self.subject.producer.keys() - self.subject.dynamic
        computed = self._makers.keys() - folded | self.subject.dynamic
        reads = [[name for name in node.input if name in computed] for node in (old, new)]
        missing = _attributes(old) - _attributes(new)
        return (old.op_type, old.domain) == (new.op_type, new.domain) and reads[0] == reads[1] and not missing

    def remade(self, name: str) -> set[str]:
        """The program's own tensors from the operands of the optimised node down to what it makes."""
        stop, found, todo = set(self.sources(name)), set[str](), [name]
        while todo:
            tensor = todo.pop()
            if tensor in found or tensor not in self.subject.dynamic or tensor not in self.subject.producer:
                continue
            found.add(tensor)
            reads = self.subject.reads[self.subject.producer[tensor]]
            todo.extend(operand for operand in reads if operand not in stop)
        return found


def _attributes(node: onnx.NodeProto) -> set[bytes]:
    return {item.SerializeToString(deterministic=True) for item in node.attribute}


Record: TypeAlias = Callable[[Case], Recording]
"""Runs a case un-optimised and gives the value of every tensor of its main graph that it came to."""

Types: TypeAlias = Mapping[str, onnx.TypeProto]

S = TypeVar("S", bound=OnnxView)


def learn(subject: S, record: Record, like: Case) -> tuple[S, str]:
    """The subject with fresh facts, and the name of the node at which its run breaks (empty if none)."""
    recording = record(subject.case(like))
    types = inferred_types(subject.model)
    values = {name: value for name, value in recording.values.items() if can_be_kept(value, types.get(name))}
    # some kernels return other dims than their specification gives; what flowed is what counts
    sound = {name: known for name, known in types.items() if agrees(known, values.get(name))}
    # of a sequence or what reads it inference seldom knows the rank, without which nothing may flow in or out
    loose = {name: value for name, value in values.items() if not _has_rank(sound.get(name), value)}
    sound |= {name: known for name, value in loose.items() if (known := type_of(value)) is not None}
    facts = Facts(sound, values, _specified(subject, types, sound))
    return replace(subject, facts=facts), recording.crashed_at or ""


def can_be_kept(value: Any, known: onnx.TypeProto | None) -> bool:
    """Whether a value may flow into a case: a tensor, a sequence of tensors, or an absent optional.

    Maps and sequences of maps or of sequences come out of operators, but no file of inputs holds them.
    """
    while known is not None and known.WhichOneof("value") in ("sequence_type", "optional_type"):
        known = getattr(known, str(known.WhichOneof("value"))).elem_type
    if known is not None and known.WhichOneof("value") not in (None, "tensor_type"):
        return False
    members = value if isinstance(value, list) else [value]
    return value is None or all(isinstance(member, np.ndarray) for member in members)


def _has_rank(known: onnx.TypeProto | None, value: Value) -> bool:
    """Whether a type that inference found says how many dims there are; where it found none, so be it."""
    return not isinstance(value, list) and (known is None or known.tensor_type.HasField("shape"))


def _specified(subject: OnnxView, types: Types, sound: Types) -> Types:
    """The types of the first results that do not keep to them, their operands being sound."""
    unsound = types.keys() - sound.keys()
    return {
        name: types[name]
        for node in subject.nodes
        for name in node.output
        if name in unsound and not unsound.intersection(free_names(node))
    }


def inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without large weights, with every type that shape inference finds, in bodies too."""
    return infer(untyped_copy(model))
