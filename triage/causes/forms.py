"""The form of a reduced program: its graph with its constants and the types of what flows in.

Where one rewrite fails on programs of one form in two ways, that is one bug: the node that it puts in is
refused where no kernel takes its types, and computes nonsense where one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from corpus.case import Case
from triage.language import language_of, model_of

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
    sources = {item.name: _type_of(item) for item in graph.input}
    sources |= {item.name: _weight_of(item) for item in graph.initializer}
    places: dict[str, tuple[Any, ...]] = {"": ()}
    form = []
    for at, node in enumerate(graph.node):
        operands = tuple(places.get(name, sources.get(name, ())) for name in _needed(node))
        attributes = sorted(each.SerializeToString(deterministic=True) for each in node.attribute)
        form.append((node.domain, node.op_type, operands, tuple(attributes)))
        places |= {name: ("node", at, index) for index, name in enumerate(node.output) if name}
    return tuple(form)


def _type_of(item: onnx.ValueInfoProto) -> tuple[Any, ...]:
    return ("input", item.type.SerializeToString(deterministic=True))


def _weight_of(tensor: onnx.TensorProto) -> tuple[Any, ...]:
    nameless = onnx.TensorProto()
    nameless.CopyFrom(tensor)
    nameless.name = ""
    return ("weight", nameless.SerializeToString(deterministic=True))


def _needed(node: onnx.NodeProto) -> Sequence[str]:
    """Return the operands that the operator's schema asks for; all of an operator that it lacks."""
    if not onnx.defs.has(node.op_type, node.domain):
        return list(node.input)
    formal = onnx.defs.get_schema(node.op_type, domain=node.domain).inputs
    return [name for at, name in enumerate(node.input) if at >= len(formal) or formal[at].option != _OPTIONAL]
