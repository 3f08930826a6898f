"""Fewer nodes inside model-local functions that a bug needs as functions, and fewer or plainer operands.

A removed node's uses go to its first operand, or to the function's first input where it has none. What flows
in a function has no recorded type: the checker says, at no cost, which choices type at every call. Optional
operands are omitted, operators and attributes become plainer.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from copy import deepcopy
from dataclasses import replace
from functools import partial

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, helper
from onnx.defs import OpSchema

from corpus.onnx.graph import (
    free_names,
    function_key,
    inlined,
    rename,
    subgraphs,
    walk_function,
    walk_graphs,
    walk_model,
    walk_nodes,
)
from reducer.move import Hints, Move, Search, SearchOf, all_at_once, first_smaller, over_sets, smaller_by
from reducer.search import Items, drop_one_at_a_time, fewest, nothing_or
from reducer.subject.onnx.nodesets import assemble, rename_reads
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject, strangeness
from reducer.subject.order import size


def omit_operands(subject: OnnxSubject, hints: Hints) -> Search:
    """Each optional operand of each node, last first."""
    places = reversed(list(_optional(subject)))
    return (yield from smaller_by(subject, [partial(_without, *place) for place in places]))


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


LOGICAL = (TensorProto.BOOL,)
NUMERIC = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16),
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
)


def plainer_operators(subject: OnnxSubject, hints: Hints) -> Search:
    """Node by node, last first; a node that gave way once is tried again.

    An operator that the failure's own text names cannot give way.
    """
    best, index = subject, len(subject.nodes) - 1
    while index >= 0:
        is_named = best.nodes[index].op_type in hints.operators
        found = yield from first_smaller(best, [] if is_named else [partial(_replaced, best, index)])
        index = index - 1 if found is best else min(index, len(found.nodes) - 1)
        best = found
    return best


def _replaced(subject: OnnxSubject, index: int) -> OnnxSubject | None:
    node = _plainer(subject, subject.nodes[index])
    if node is None:
        return None
    return assemble(subject, [*subject.nodes[:index], node, *subject.nodes[index + 1 :]])


def _plainer(subject: OnnxSubject, node: NodeProto) -> NodeProto | None:
    """A plainer node: a sum for two operands, an absolute value for one, the operand, or a Cast."""
    used = [name for name in node.output if name]
    kind = subject.kind(used[0]) if len(used) == 1 else None
    if kind is None or len(kind) != 2 or not isinstance(kind[1], tuple):
        return None
    operands = list(dict.fromkeys(name for name in node.input if name))
    same = [name for name in operands if subject.kind(name) == kind]
    pair = [
        *same[:1],
        *(name for name in operands if name not in same[:1] and _broadcasts(subject, name, kind)),
    ]
    cost = strangeness(node)
    logical, numeric = kind[0] in LOGICAL, kind[0] in NUMERIC
    if same and cost > 2 and len(pair) > 1 and (logical or numeric):
        return helper.make_node("And" if logical else "Add", pair[:2], used)
    if same and cost > 1 and (logical or numeric):
        return helper.make_node("Not" if logical else "Abs", same[:1], used)
    if same:
        return helper.make_node("Identity", same[:1], used)
    return _cast(subject, operands, kind, used) if cost > 1 else None


def _broadcasts(subject: OnnxSubject, name: str, kind: tuple[object, ...]) -> bool:
    """Whether a tensor of that element type can be added to one of that kind without changing its dims."""
    other = subject.kind(name)
    if other is None or len(other) != 2 or other[0] != kind[0]:
        return False
    dims, into = other[1], kind[1]
    if not isinstance(dims, tuple) or not isinstance(into, tuple) or len(dims) > len(into):
        return False
    tail = into[len(into) - len(dims) :]
    return all(dim in (1, target) for dim, target in zip(dims, tail, strict=True))


def _cast(
    subject: OnnxSubject, operands: list[str], kind: tuple[object, ...], used: list[str]
) -> onnx.NodeProto | None:
    """A Cast if the operand and the result differ in element type alone; else None."""
    for name in operands:
        other = subject.kind(name)
        if other is not None and len(other) == 2 and other[1] == kind[1] and kind[0] in (*NUMERIC, *LOGICAL):
            return helper.make_node("Cast", [name], used, to=kind[0])
    return None


GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
FEW_OPERANDS = 4


def drop_attributes(subject: OnnxSubject, hints: Hints) -> Search:
    """All that can be absent at once; where some are needed, those are found by bisection."""
    places = _droppable(subject)
    if not places:
        return subject
    search = nothing_or(fewest(len(places), FEW_OPERANDS))
    return (yield from over_sets(subject, search, partial(_keep_attributes, subject, places)))


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
    """The attributes that must be there; for an operator without a schema any may be absent."""
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
    kept = [deepcopy(item) for item in attributes if item.name in names]
    del attributes[:]
    attributes.extend(kept)


FEW = 4
"""Up to here, asking for each node is cheaper than bisecting."""


def shrink_functions(subject: OnnxSubject, hints: Hints) -> Search:
    """Function after function, in the model's order; of each its own nodes, then those of its bodies."""
    best = subject
    for key in _functions(subject.model):
        place = -1
        while (function := _functions(best.model).get(key)) is not None and place < len(_bodies(function)):
            best = yield from _shrink(best, function, place)
            place += 1
    return best


def _functions(model: onnx.ModelProto) -> dict[tuple[str, str, str], FunctionProto]:
    return {function_key(each): each for each in model.functions}


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

    found = yield from over_sets(subject, fewest(len(everything), FEW), smaller)
    if found is not subject or len(everything) <= FEW:
        return found
    return (yield from over_sets(subject, drop_one_at_a_time(everything), smaller))


def _keep(subject: OnnxSubject, function: FunctionProto, place: int, keep: Items) -> OnnxSubject | None:
    """The subject with only these nodes in a function or body; None where the rest does not type."""
    fresh = deepcopy(function)
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
    copy = deepcopy(node)
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
    Move("omit optional operands", 460, all_at_once(omit_operands), reshapes=True, on=OnnxSubject),
    Move("plainer operators", 610, plainer_operators, reshapes=True, chance=0.1, late=True, on=OnnxSubject),
    Move("drop attributes", 450, drop_attributes, reshapes=True, on=OnnxSubject),
    Move("inline functions", 270, inline_functions, reshapes=True, on=OnnxSubject),
    Move("shrink functions", 290, shrink_functions, reshapes=True, on=OnnxSubject),
)
