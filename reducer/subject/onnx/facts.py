"""Learning the type and value of every tensor: shape inference, and one run of the un-optimised backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import onnx

from corpus.case import Case
from corpus.onnx.graph import free_names
from corpus.onnx.infer import infer, inferred_types, untyped_copy
from corpus.values import Value
from oracles.probes.record import Recording
from reducer.subject.base import Facts
from reducer.subject.onnx.view import OnnxView
from reducer.subject.tensors import agrees, type_of

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
