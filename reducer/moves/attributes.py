"""Attributes that have a default go; the others stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence
from functools import partial

import onnx
from onnx import AttributeProto

from corpus.onnx.graph import function_key, walk_function, walk_model, walk_nodes
from reducer.move import Hints, Move, Search, over_sets
from reducer.search import Items, drop_one_at_a_time, find_essentials
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject

GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
FEW = 4


def drop_attributes(subject: OnnxSubject, hints: Hints) -> Search:
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


def _droppable(subject: OnnxSubject) -> list[tuple[int, str]]:
    """List (node, attribute) pairs that the node's operator does not require; calls keep all of theirs."""
    functions = {function_key(each) for each in subject.model.functions}
    found = []
    for index, (node, version) in enumerate(_versions(subject.model)):
        required = _required(node, version)
        found += [
            (index, item.name)
            for item in node.attribute
            if item.type not in GRAPHS
            and required is not None
            and item.name not in required
            and function_key(node) not in functions
        ]
    return found


def _versions(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, int]]:
    """Yield every node, those of functions last, with the version of its domain where it stands."""
    for holder, nodes in (
        (model, walk_nodes(model.graph)),
        *((each, walk_function(each)) for each in model.functions),
    ):
        versions = {item.domain: item.version for item in holder.opset_import}
        yield from ((node, versions.get(node.domain, 0)) for node in nodes)


def _required(node: onnx.NodeProto, version: int) -> frozenset[str] | None:
    """Return the attributes that must be there; for an operator without a schema any may be absent."""
    if node.op_type == "Constant":
        return None
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return frozenset()
    return frozenset(name for name, attribute in schema.attributes.items() if attribute.required)


def _keep_attributes(subject: OnnxSubject, places: list[tuple[int, str]], keep: Items) -> OnnxSubject | None:
    dropped = {place for index, place in enumerate(places) if index not in keep}

    def edit(model: onnx.ModelProto) -> None:
        for index, node in enumerate(walk_model(model)):
            kept = [item for item in node.attribute if (index, item.name) not in dropped]
            if len(kept) < len(node.attribute):
                _keep_only(node.attribute, {item.name for item in kept})
        drop_parameters(model)

    return change_model(subject, edit)


def drop_parameters(model: onnx.ModelProto) -> None:
    """Attributes that functions take and no node in them refers to, in place; calls do not give them then."""
    for function in model.functions:
        nodes = list(walk_function(function))
        read = {item.ref_attr_name for node in nodes for item in node.attribute if item.ref_attr_name}
        taken = [*function.attribute, *(item.name for item in function.attribute_proto)]
        if unread := set(taken) - read:
            function.attribute[:] = [name for name in function.attribute if name in read]
            _keep_only(function.attribute_proto, read)
            for node in walk_model(model):
                if function_key(node) == function_key(function):
                    _keep_only(node.attribute, {item.name for item in node.attribute} - unread)


def _keep_only(attributes: MutableSequence[AttributeProto], names: set[str]) -> None:
    kept = [_copy(item) for item in attributes if item.name in names]
    del attributes[:]
    attributes.extend(kept)


def _copy(attribute: AttributeProto) -> AttributeProto:
    copy = AttributeProto()
    copy.CopyFrom(attribute)
    return copy


MOVES = (Move("drop attributes", 450, drop_attributes, reshapes=True, on=OnnxSubject),)
