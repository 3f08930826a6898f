"""Where an optimised run parts from the un-optimised one: told by the values of both, tensor by tensor.

The program as the optimiser left it is run with every intermediate recorded. What both programs name is
compared; going up from a wrong output leads to the first tensor that is wrong beyond the tolerance, and from
there to the nodes that the optimiser changed and at which the values begin to differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import onnx

from corpus.onnx.graph import free_names, producers
from corpus.values import Value
from oracles.numerics.compare import Tolerance, compare
from reducer.subject.onnx.view import OnnxView

EXACT = Tolerance(0.0, 0.0)


class Grade(IntEnum):
    """The distance between a tensor of the optimised program and the un-optimised tensor of that name."""

    EQUAL = 0
    NEAR = 1
    FAR = 2


@dataclass(frozen=True, slots=True)
class DivergedTensors:
    """Tensors of the program, by name: what the optimiser made anew and differs, and what shows it.

    The nodes that make `rewritten` are to blame. Where what they make is wrong within the tolerance only,
    `carriers` are the tensors below by which it grows beyond.
    """

    rewritten: tuple[str, ...] = ()
    carriers: tuple[str, ...] = ()


def find_divergence(
    subject: OnnxView, optimised: onnx.ModelProto, values: Mapping[str, Value], tolerance: Tolerance
) -> DivergedTensors:
    """Find the tensors that differ before the first wrong output; empty if no value tells."""
    runs = _Runs(subject, optimised, values, tolerance)
    wrong = next((name for name in subject.graph_outputs if runs.grade(name) is Grade.FAR), None)
    if wrong is None:
        return DivergedTensors()
    first = _first_far(runs, wrong)
    changed, carriers = ([first], []) if runs.is_changed(first) else _changed_above(runs, first)
    made = {name for tensor in changed for name in runs.remade(tensor)}
    return DivergedTensors(_ordered(subject, made), _ordered(subject, carriers))


def _first_far(runs: _Runs, name: str) -> str:
    """Up from a wrong tensor to one that is wrong on operands that are not."""
    above = next((source for source in runs.sources(name) if runs.grade(source) is Grade.FAR), None)
    while above is not None:
        name = above
        above = next((source for source in runs.sources(name) if runs.grade(source) is Grade.FAR), None)
    return name


def _changed_above(runs: _Runs, first: str) -> tuple[list[str], list[str]]:
    """The nearest changed tensors above, with the changed ones right above them; those on the way there."""
    changed, carriers, todo, seen = list[str](), list[str](), [first], {first}
    while todo:
        name = todo.pop()
        is_changed = runs.is_changed(name)
        (changed if is_changed else carriers).append(name)
        for source in runs.sources(name):
            is_boundary = is_changed and not runs.is_changed(source)
            if source not in seen and not is_boundary and runs.grade(source) is not Grade.EQUAL:
                seen.add(source)
                todo.append(source)
    return changed, carriers


def _ordered(subject: OnnxView, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: subject.producer.get(name, -1)))


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
        for operand in _reads(self._makers[name]):
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


def _reads(node: onnx.NodeProto) -> tuple[str, ...]:
    direct = dict.fromkeys(name for name in node.input if name)
    return (*direct, *sorted(free_names(node).difference(direct)))


def _attributes(node: onnx.NodeProto) -> set[bytes]:
    return {item.SerializeToString(deterministic=True) for item in node.attribute}
