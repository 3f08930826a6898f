"""Attributes that have a default go; the others stay as they are."""

from __future__ import annotations

from functools import partial

import onnx
from onnx import AttributeProto

from corpus.onnx_graph import walk_nodes
from reducer.move import Hints, Move, Search, over_sets
from reducer.retype import change_model
from reducer.search import Items, drop_one_at_a_time, find_essentials
from reducer.subject import Subject

GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
FEW = 4


def drop_attributes(subject: Subject, hints: Hints) -> Search:
    """All that can be absent at once; where some are needed, those are found by bisection."""
    places = _droppable(subject)
    if not places:
        return subject
    build = partial(_keep_attributes, subject, places)
    nothing = partial(build, frozenset())
    if (yield nothing):
        return nothing() or subject
    count = len(places)
    search = find_essentials(range(count)) if count > FEW else drop_one_at_a_time(range(count))
    return (yield from over_sets(subject, search, build))


def _droppable(subject: Subject) -> list[tuple[int, str]]:
    """By node in walking order, the attributes that its operator does not require."""
    versions = {item.domain: item.version for item in subject.model.opset_import}
    found = []
    for index, node in enumerate(walk_nodes(subject.model.graph)):
        required = _required(node, versions.get(node.domain, 0))
        found += [
            (index, item.name)
            for item in node.attribute
            if item.type not in GRAPHS and required is not None and item.name not in required
        ]
    return found


def _required(node: onnx.NodeProto, version: int) -> frozenset[str] | None:
    """The attributes that must be there; for an operator without a schema any may be absent."""
    if node.op_type == "Constant":
        return None
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return frozenset()
    return frozenset(name for name, attribute in schema.attributes.items() if attribute.required)


def _keep_attributes(subject: Subject, places: list[tuple[int, str]], keep: Items) -> Subject | None:
    dropped = {place for index, place in enumerate(places) if index not in keep}

    def edit(model: onnx.ModelProto) -> None:
        for index, node in enumerate(walk_nodes(model.graph)):
            kept = [item for item in node.attribute if (index, item.name) not in dropped]
            if len(kept) < len(node.attribute):
                copies = [_copy(item) for item in kept]
                del node.attribute[:]
                node.attribute.extend(copies)

    return change_model(subject, edit)


def _copy(attribute: AttributeProto) -> AttributeProto:
    copy = AttributeProto()
    copy.CopyFrom(attribute)
    return copy


MOVES = (Move("drop attributes", 450, drop_attributes, reshapes=True),)
