"""Optional operands are omitted; inputs of one type become one input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import onnx
from onnx.defs import OpSchema

from reducer.move import Hints, Move, Search, smaller_by
from reducer.subject.onnx.nodesets import assemble, rename_reads
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size


def omit_operands(subject: OnnxSubject, hints: Hints) -> Search:
    """Each optional operand of each node, last first."""
    places = reversed(list(_optional(subject)))
    return (
        yield from smaller_by(subject, [partial(_without, index, position) for index, position in places])
    )


def _optional(subject: OnnxSubject) -> Iterator[tuple[int, int]]:
    versions = {item.domain: item.version for item in subject.model.opset_import}
    for index, node in enumerate(subject.nodes):
        try:
            schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 0), node.domain)
        except onnx.defs.SchemaError:
            continue
        for position, name in enumerate(node.input):
            formal = schema.inputs[min(position, len(schema.inputs) - 1)]
            spare = position >= schema.min_input and formal.option != OpSchema.FormalParameterOption.Single
            if name and spare:
                yield index, position


def _without(index: int, position: int, subject: OnnxSubject) -> OnnxSubject | None:
    def edit(model: onnx.ModelProto) -> None:
        node = model.graph.node[index]
        node.input[position] = ""
        while node.input and not node.input[-1]:
            del node.input[-1]

    changed = change_model(subject, edit)
    return assemble(changed, list(changed.nodes)) if changed is not None else None


def merge_inputs(subject: OnnxSubject, hints: Hints) -> Search:
    """Two tensors that flow in become the earlier one: of one type, or else of one element type.

    All that can be at once, then one after the other.
    """
    names = subject.sources[1:]
    ways: list[Callable[[OnnxSubject], OnnxSubject | None]] = [partial(_merged, name) for name in names]
    return (yield from smaller_by(subject, [partial(_all_merged, names), *ways]))


def _all_merged(names: Sequence[str], subject: OnnxSubject) -> OnnxSubject | None:
    """Return each of them that can be; None where that is one or none."""
    best, count = subject, 0
    for name in names:
        found = _merged(name, best)
        if found is not None and size(found) < size(best):
            best, count = found, count + 1
    return best if count > 1 else None


def _earlier(subject: OnnxSubject, name: str) -> str | None:
    """Return the first earlier tensor of the same type; where there is none, of the same element type."""
    kind = subject.kind(name)
    earlier = subject.sources[: subject.sources.index(name)]
    same = [other for other in earlier if kind is not None and subject.kind(other) == kind]
    array = subject.array(name)
    if same or array is None or subject.is_shape(name):
        return next(iter(same), None)
    arrays = {other: subject.array(other) for other in earlier if not subject.is_shape(other)}
    alike = (other for other, value in arrays.items() if value is not None and value.dtype == array.dtype)
    return next(alike, None)


def _merged(name: str, subject: OnnxSubject) -> OnnxSubject | None:
    into = _earlier(subject, name) if name in subject.sources else None
    if into is None:
        return None
    nodes = [rename_reads(node, {name: into}) for node in subject.nodes]
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    merged = assemble(replace(subject, model=model), nodes)
    return change_model(merged, lambda model: None) if merged is not None else None


MOVES = (
    Move("omit optional operands", 460, omit_operands, reshapes=True, on=OnnxSubject),
    Move("merge inputs of one type", 480, merge_inputs, reshapes=True, on=OnnxSubject),
)
