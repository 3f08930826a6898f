"""Fewer graph outputs: what nobody asks for is not compared and may be fused away."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import onnx

from corpus.onnx.graph import walk_all_graphs, walk_graphs, walk_nodes
from reducer.move import Hints, Move, Search, over_sets
from reducer.search import Items, drop_one_at_a_time, find_essentials
from reducer.subject.base import NodeSubject
from reducer.subject.onnx.nodesets import declaration
from reducer.subject.onnx.retype import drop_unused_sets
from reducer.subject.onnx.subject import OnnxSubject, clear_remarks
from reducer.subject.order import size

FEW = 3


def drop_outputs(subject: NodeSubject, hints: Hints) -> Search:
    """Keep as few outputs as will do; a node that then makes nothing of use goes too."""
    count = len(subject.graph_outputs)
    if count < 2:
        return subject
    search = find_essentials(range(count)) if count > FEW else drop_one_at_a_time(range(count))
    return (yield from over_sets(subject, search, partial(_keep_outputs, subject)))


def _keep_outputs(subject: NodeSubject, keep: Items) -> NodeSubject | None:
    names = [name for index, name in enumerate(subject.graph_outputs) if index in keep]
    wanted, live = set(names), []
    for index in range(len(subject.nodes) - 1, -1, -1):
        if not wanted.isdisjoint(subject.nodes[index].output):
            wanted.update(subject.reads[index])
            live.append(subject.nodes[index])
    return subject.assemble(live[::-1], names)


def drop_many_outputs(subject: NodeSubject, hints: Hints) -> Search:
    """Drop outputs if there are many, before the moves of dims and values."""
    if len(subject.graph_outputs) <= FEW:
        return subject
    return (yield from drop_outputs(subject, hints))


def strip(subject: OnnxSubject, hints: Hints) -> Search:
    """Everything at once; where that is too much, one kind after the other."""
    changes = (_constants_lifted, _without_unread, _without_annotations, _without_documentation)
    proposal = partial(_apply, subject, changes)
    if size(proposal()) >= size(subject):
        return subject
    if (yield proposal):
        return proposal()
    best = subject
    for change in changes:
        single = partial(_apply, best, (change,))
        if size(single()) < size(best) and (yield single):
            best = single()
    return best


def _apply(subject: OnnxSubject, changes: Iterable[Callable[[onnx.ModelProto], None]]) -> OnnxSubject:
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
    for change in changes:
        change(model)
    taken = {info.name for info in model.graph.input}
    inputs = {name: value for name, value in subject.inputs.items() if name in taken}
    return replace(subject, model=model, inputs=inputs)


def _without_unread(model: onnx.ModelProto) -> None:
    """Inputs and weights that no node reads and no graph gives."""
    graph = model.graph
    read = {name for node in walk_nodes(graph) for name in node.input}
    read |= {info.name for each in walk_graphs(graph) for info in each.output}
    for tensors in (graph.input, graph.initializer):
        for place in reversed(range(len(tensors))):
            if tensors[place].name not in read:
                del tensors[place]


def _without_annotations(model: onnx.ModelProto) -> None:
    """Types of inner values, which may be stale and change error texts."""
    for graph in walk_all_graphs(model):
        del graph.value_info[:]
        del graph.quantization_annotation[:]
    for function in model.functions:
        del function.value_info[:]


def _without_documentation(model: onnx.ModelProto) -> None:
    """Doc strings and metadata, which hold stack traces and the authors' paths; opsets that nothing uses."""
    clear_remarks(model)
    drop_unused_sets(model)


def _constants_lifted(model: onnx.ModelProto) -> None:
    """Constant nodes become initializers, in bodies too; before IR 4 those are inputs as well."""
    if not any(node.op_type == "Constant" for node in walk_nodes(model.graph)):
        return
    from onnx_ir import from_proto, to_proto  # half a second, which most models need not wait for
    from onnx_ir.passes.common import LiftConstantsToInitializersPass

    before = {tensor.name for tensor in model.graph.initializer}
    lift = LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)
    model.CopyFrom(to_proto(lift(from_proto(model)).model))
    if model.ir_version < 4:
        lifted = (tensor for tensor in model.graph.initializer if tensor.name not in before)
        model.graph.input.extend(declaration(tensor) for tensor in lifted)


MOVES = (
    Move("drop many outputs", 300, drop_many_outputs, on=NodeSubject),
    Move("drop outputs", 590, drop_outputs, chance=0.1, on=NodeSubject),
    Move("strip annotations, documentation and Constant nodes", 100, strip, renames=True, on=OnnxSubject),
)
