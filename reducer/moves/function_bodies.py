"""Fewer nodes inside model-local functions that a bug needs as functions, and fewer operands of their calls.

A removed node's uses go to its first operand, or to the function's first input where it has none. What flows
in a function has no recorded type: the checker says, at no cost, which choices type at every call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import onnx
from onnx import FunctionProto, GraphProto, NodeProto

from corpus.onnx.graph import free_names, function_key, inlined, rename, subgraphs, walk_graphs, walk_model
from reducer.move import Hints, Move, Search, SearchOf, over_sets, smaller_by
from reducer.moves.operands import drop_parameters
from reducer.search import Items, drop_one_at_a_time, find_essentials
from reducer.subject.onnx.nodesets import assemble, rename_reads
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size

FEW = 4
"""Up to here, asking for each node is cheaper than bisecting."""


def shrink_functions(subject: OnnxSubject, hints: Hints) -> Search:
    """Function after function, in the model's order; of each its own nodes, then those of its bodies."""
    best = subject
    for key in [function_key(function) for function in subject.model.functions]:
        place = -1
        while (function := _find(best.model, key)) is not None and place < len(_bodies(function)):
            best = yield from _shrink(best, function, place)
            place += 1
    return best


def _find(model: onnx.ModelProto, key: tuple[str, str, str]) -> FunctionProto | None:
    return next((each for each in model.functions if function_key(each) == key), None)


def _bodies(function: FunctionProto) -> list[GraphProto]:
    """The bodies in a function at any depth, an outer one before those in it."""
    outer = (body for node in function.node for body in subgraphs(node))
    return [inner for body in outer for inner in walk_graphs(body)]


def _shrink(subject: OnnxSubject, function: FunctionProto, place: int) -> SearchOf[OnnxSubject]:
    """Fewer nodes in the function itself (place -1), or in one of its bodies."""
    everything = range(len((function if place < 0 else _bodies(function)[place]).node))
    if len(everything) < 2:
        return subject

    def smaller(keep: Items) -> OnnxSubject | None:
        found = _keep(subject, function, place, keep)
        return found if found is not None and size(found) < size(subject) else None

    search = find_essentials(everything) if len(everything) > FEW else drop_one_at_a_time(everything)
    found = yield from over_sets(subject, search, smaller)
    if found is not subject or len(everything) <= FEW:
        return found
    return (yield from over_sets(subject, drop_one_at_a_time(everything), smaller))


def _keep(subject: OnnxSubject, function: FunctionProto, place: int, keep: Items) -> OnnxSubject | None:
    """The subject with only these nodes in a function or body; None where the rest does not type."""
    fresh = FunctionProto()
    fresh.CopyFrom(function)
    if not _keep_in(fresh if place < 0 else _bodies(fresh)[place], list(function.input), keep):
        return None
    read = {name for node in fresh.node for name in free_names(node)}
    unread = [at for at, name in enumerate(fresh.input) if name not in read]
    for at in reversed(unread):
        del fresh.input[at]

    def edit(model: onnx.ModelProto) -> None:
        for each in model.functions:
            if function_key(each) == function_key(fresh):
                each.CopyFrom(fresh)
        for call in walk_model(model):
            if function_key(call) == function_key(fresh):
                _omit(call, unread)
        drop_parameters(model)

    changed = change_model(subject, edit)
    return assemble(changed, list(changed.nodes)) if changed is not None else None


def _keep_in(holder: FunctionProto | GraphProto, inputs: list[str], keep: Items) -> bool:
    """Only these nodes, in place; False where a result has nothing to stand in for it."""
    outputs = [item if isinstance(item, str) else item.name for item in holder.output]
    links = _links(holder.node, inputs, keep)
    kept = [rename_reads(holder.node[index], links) for index in sorted(keep)]
    nodes = _with_outputs(outputs, kept, links)
    if nodes is None:
        return False
    copies = GraphProto(node=nodes)
    del holder.node[:]
    holder.node.extend(copies.node)
    return True


def _omit(call: NodeProto, unread: list[int]) -> None:
    """Operands that the function does not take any more."""
    for at in reversed(unread):
        if at < len(call.input):
            del call.input[at]


def _links(nodes: Iterable[NodeProto], inputs: list[str], keep: Items) -> dict[str, str]:
    """Map each removed tensor to the tensor that takes its place."""
    links: dict[str, str] = {}
    for index, node in enumerate(nodes):
        if index not in keep:
            operand = next(iter([*filter(None, node.input), *inputs]), "")
            links.update(dict.fromkeys(filter(None, node.output), links.get(operand, operand)))
    return links


def _with_outputs(
    results: list[str], kept: list[NodeProto], links: Mapping[str, str]
) -> list[NodeProto] | None:
    """The kept nodes; where what must come out is gone, its stand-in gets its name, or an Identity."""
    nodes, outputs = list(kept), set(results)
    for output in results:
        source = links.get(output)
        if source is None:
            continue
        made = {name for node in nodes for name in node.output}
        if source in made - outputs:
            nodes = [_renamed(node, {source: output}) for node in nodes]
        elif source:
            nodes.append(onnx.helper.make_node("Identity", [source], [output]))
        else:
            return None
    return nodes


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    rename(copy, lambda name: names.get(name, name))
    return copy


def inline_functions(subject: OnnxSubject, hints: Hints) -> Search:
    """Model-local functions are written out where they are called: all of them, else one after the other."""
    keys = [(function.domain, function.name) for function in subject.model.functions]
    choices = [*([None] if keys else []), *(keys if len(keys) > 1 else [])]
    return (yield from smaller_by(subject, [partial(_inlined, only) for only in choices]))


def _inlined(only: tuple[str, str] | None, subject: OnnxSubject) -> OnnxSubject | None:
    """The subject with one function, or all of them, written out."""
    names = [(function.domain, function.name) for function in subject.model.functions]
    if only is not None and only not in names:
        return None
    try:
        whole = replace(subject, model=inlined(subject.model, only))
    except ValueError:
        return None
    return assemble(whole, list(whole.nodes)) or whole


MOVES = (
    Move("inline functions", 270, inline_functions, reshapes=True, on=OnnxSubject),
    Move("shrink functions", 290, shrink_functions, reshapes=True, on=OnnxSubject),
)
