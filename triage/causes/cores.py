"""What a bug is, whatever stands around it: of passes what ill-typed node they put in, of a crash its site.

Where one rewrite fails on programs of one form in two ways, that is one bug: the node that it puts in is
refused where no kernel takes its types, and computes nonsense where one does.

A stripped library tells only where a function starts, which moves from build to build. The operator, the
types that flow in and what is special of them (empty, zero, the least integer) stay.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from corpus.case import Case
from corpus.onnx.types import is_external
from corpus.values import Value
from oracles.judge import Judge
from oracles.normalise import parse_message
from oracles.verdict import Verdict
from reducer.language import open_nodes
from reducer.subject.base import NodeSubject
from triage.language import language_of, model_of

_OF_TYPES = re.compile(
    r"Could not find an implementation|Failed to find kernel|TypeInferenceError|\bType Error\b"
    r"|tensor\(\w+\)' of (?:input|output)"
)
"""What says that no kernel takes the types of a node, or that its types do not fit."""


def ill_typed(case: Case, verdict: Verdict, passes: tuple[str, ...]) -> str:
    """The passes with the operator that they put in and that is refused for its types; else empty.

    One text says that there is no kernel, another that types do not fit: the operator set decides which.
    If the program has the operator itself, the passes gave it operands of other types, whatever it is.
    """
    message = verdict.failing.message if verdict.failing is not None else ""
    operator = parse_message(message).op
    if not operator or not _OF_TYPES.search(message):
        return ""
    what = "operands" if operator in case.measure.ops else operator
    return f"{what} of {' '.join(sorted(passes))}"


Form = tuple[tuple[Any, ...], ...]
_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional


def form_of(case: Case) -> Form | None:
    """The form of an ONNX program, without names, optional operands, the operator set and its inputs.

    Constants count: a factor of infinity is refused for what it is, whatever else is wrong with the rewrite.
    None for a program that is no model.
    """
    if not language_of(case.format).has_model:
        return None
    graph = model_of(case).graph
    sources: dict[str, tuple[Any, ...]] = {
        each.name: ("input", each.type.SerializeToString(deterministic=True)) for each in graph.input
    }
    sources |= {item.name: _weight_of(item) for item in graph.initializer}
    places: dict[str, tuple[Any, ...]] = {"": ()}
    form = []
    for at, node in enumerate(graph.node):
        operands = tuple(places.get(name, sources.get(name, ())) for name in _needed(node))
        attributes = sorted(each.SerializeToString(deterministic=True) for each in node.attribute)
        form.append((node.domain, node.op_type, operands, tuple(attributes)))
        places |= {name: ("node", at, index) for index, name in enumerate(node.output) if name}
    return tuple(form)


def _weight_of(tensor: onnx.TensorProto) -> tuple[Any, ...]:
    """By its values, which a file spells as raw bytes or as numbers; by its text where they are elsewhere."""
    nameless = onnx.TensorProto()
    nameless.CopyFrom(tensor)
    nameless.name = ""
    if not is_external(tensor) and tensor.data_type != onnx.TensorProto.STRING:
        nameless.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)))
    return ("weight", nameless.SerializeToString(deterministic=True))


def _needed(node: onnx.NodeProto) -> Sequence[str]:
    """The operands that the operator's schema asks for; all of an operator that it lacks."""
    if not onnx.defs.has(node.op_type, node.domain):
        return list(node.input)
    formal = onnx.defs.get_schema(node.op_type, domain=node.domain).inputs
    return [name for at, name in enumerate(node.input) if at >= len(formal) or formal[at].option != _OPTIONAL]


LEFT_OUT = " is left out"


@dataclass(frozen=True, slots=True)
class Site:
    """The node in which a process died: its operator, the dtypes that flow in, what is special of the values.

    `special` are words such as `1 holds zero`, the number being that of the operand.
    """

    operator: str
    dtypes: tuple[str, ...]
    special: frozenset[str]

    def is_like(self, known: Site | None) -> bool:
        """Whether a known site is the same one: all that matters of the values there holds here.

        Kernels are made from one text for all types, so that these make no two sites; nor do operators that
        share a kernel's base, where an operand is left out. A known case may hold more that is special than
        it needs, as long as it holds what is special here.
        """
        if known is None:
            return False
        if self.operator != known.operator:
            is_one_base = share_a_kernel(self.operator, known.operator)
            return is_one_base and self.leaves_out and known.leaves_out
        own, others = self.telling, known.telling
        return others <= own or (bool(own) and own <= others)

    @property
    def leaves_out(self) -> bool:
        """Whether an operand is left out."""
        return any(word.endswith(LEFT_OUT) for word in self.special)

    @property
    def telling(self) -> frozenset[str]:
        """What may matter of it: a zero where it divides; elsewhere a reduction leaves that of any value."""
        divides = self.operator in ("Div", "Mod")
        zeros = "1 holds zero" if divides else ""
        return frozenset(word for word in self.special if not word.endswith("holds zero") or word == zeros)


@dataclass
class Sites:
    """The sites of crashes as one judge finds them, each case asked once."""

    judge: Judge
    known: dict[str, Site | None] = field(default_factory=dict)

    def of(self, case: Case) -> Site | None:
        """The node in which the un-optimised program dies when run node by node; None where none does."""
        if case.case_id not in self.known:
            self.known[case.case_id] = site_of_crash(case, self.judge)
        return self.known[case.case_id]

    def costs(self, case: Case) -> int:
        """The checks that it takes to say so: none where it was asked before."""
        return int(case.case_id not in self.known)


def site_of_crash(case: Case, judge: Judge) -> Site | None:
    """The node that kills the un-optimised program when it runs node by node; None if none does."""
    opened = open_nodes(case, judge) if language_of(case.format).has_model else None
    if opened is None:
        return None
    subject, culprit = opened
    index = subject.producer.get(culprit)
    node = next((node for node in subject.nodes if culprit and culprit in (node.name, *node.output)), None)
    node = subject.nodes[index] if index is not None else node
    if node is None:
        return None
    operands = [_value(subject, name) if name else None for name in node.input]
    dtypes = tuple(str(value.dtype) for value in operands if isinstance(value, np.ndarray))
    left_out = [position for position, name in enumerate(node.input) if not name]
    return Site(node.op_type, dtypes, special_values(operands, left_out))


def share_a_kernel(one: str, two: str) -> bool:
    """Whether two operators that die in one native function may share the kernel's base.

    A helper such as a check of an axis serves any operator; a base serves those that take and give the same:
    Min, Sum and Mean any number of operands of one type.
    """
    return one == two or (_form(one) is not None and _form(one) == _form(two))


def _form(operator: str) -> tuple[tuple[str, ...], ...] | None:
    """An operator's schema without names; None if the standard lacks the operator."""
    if not onnx.defs.has(operator):
        return None
    schema = onnx.defs.get_schema(operator)
    places = {name: str(at) for at, name in enumerate(dict.fromkeys(each.type_str for each in schema.inputs))}
    taken, given = (
        tuple(f"{each.option} {places.get(each.type_str, each.type_str)}" for each in side)
        for side in (schema.inputs, schema.outputs)
    )
    return taken, given, tuple(sorted(schema.attributes))


def _value(subject: NodeSubject, name: str) -> Value:
    found = subject.facts.values.get(name)
    return found if found is not None else subject.array(name)


def special_values(values: Sequence[Value], left_out: Collection[int] = ()) -> frozenset[str]:
    """Name special operands by position: empty, left out, zero, the least integer, NaN, infinity."""
    found = {f"{position}{LEFT_OUT}" for position in left_out}
    for position, value in enumerate(values):
        if isinstance(value, np.ndarray):
            found.update(f"{position} {word}" for word in _special(value))
    return frozenset(found)


def _special(value: np.ndarray) -> list[str]:
    if value.size == 0:
        return ["is empty"]
    words = []
    if value.dtype.kind in "iu" and not value.all():
        words.append("holds zero")
    if value.dtype.kind == "i" and (value == np.iinfo(value.dtype).min).any():
        words.append("holds the least integer")
    if value.dtype.kind == "f" and np.isnan(value).any():
        words.append("holds NaN")
    if value.dtype.kind == "f" and np.isinf(value).any():
        words.append("holds infinity")
    return words
