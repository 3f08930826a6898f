"""Short names in reading order, no producer, the oldest operator sets: nothing that is only the author's.

These moves only run when asked for. They need not make a case smaller, and each of them proposes nothing
where there is nothing left to hide, so that running them again changes nothing.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from functools import partial

import onnx

from corpus.onnx.graph import rename, walk_all_graphs, walk_graphs, walk_model, walk_nodes
from reducer.move import Hints, Move, Search, SearchOf, first_smaller, first_valid, one_by_one, smaller_by
from reducer.private_remains import EDITS, placeholders, with_strings
from reducer.private_values import CHANGES, telling_places, with_values
from reducer.subject.onnx.nodesets import declaration
from reducer.subject.onnx.retype import drop_unused_sets, least_versions, lowered
from reducer.subject.onnx.subject import (
    OnnxSubject,
    clear_remarks,
    dim_names,
    new_names,
    number_dims,
    number_graphs,
    plain_functions,
    renamed_runs,
)
from reducer.subject.order import size


def canonical_names(subject: OnnxSubject, hints: Hints) -> Search:
    """All at once, and the operator sets with them; a name that matters is rare, and then all names stay.

    Those of functions may stay alone. The operator sets have a move of their own: here they only spare it a
    question.
    """
    plain = renamed(subject)
    if not size(plain) < size(subject):
        return subject
    choices: list[Callable[[], OnnxSubject]] = [lambda: lowered(plain), lambda: plain]
    if subject.model.functions:
        choices.append(partial(renamed, subject, functions=False))
    return (yield from first_smaller(subject, choices))


def renamed(
    subject: OnnxSubject, stay: frozenset[str] = frozenset(), *, functions: bool = True
) -> OnnxSubject:
    """The subject under short names, but for those that are to stay."""
    model = deepcopy(subject.model)
    names = {old: old if old in stay else new for old, new in new_names(model.graph).items()}
    graph = model.graph
    for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        info.name = names[info.name]
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, "")
    for node in graph.node:
        rename(node, lambda name: names[name])
    for node in walk_nodes(graph):
        node.ClearField("name")
    number_graphs(model)
    dims = dim_names(model)
    number_dims(model)
    if functions:
        plain_functions(model)
    _bare_header(model)
    inputs = {names[name]: value for name, value in subject.inputs.items()}
    facts = replace(
        subject.facts,
        types={names[name]: value for name, value in subject.facts.types.items() if name in names},
        values={names[name]: value for name, value in subject.facts.values.items() if name in names},
        specified={names[name]: value for name, value in subject.facts.specified.items() if name in names},
    )
    origins = {new: subject.origin(old) for old, new in names.items()}
    earlier = renamed_runs(subject.earlier, dims)
    return replace(subject, model=model, inputs=inputs, facts=facts, origins=origins, earlier=earlier)


def _bare_header(model: onnx.ModelProto) -> None:
    """No producer, no opset that is not used, and no word for the default domain."""
    for field in ("producer_name", "producer_version", "domain", "model_version"):
        model.ClearField(field)
    sets = [item for holder in (model, *model.functions) for item in holder.opset_import]
    for item in (*sets, *walk_model(model)):
        if not item.domain:
            item.ClearField("domain")
    drop_unused_sets(model)


def lower_opsets(subject: OnnxSubject, hints: Hints) -> Search:
    """All domains at once; else domain by domain, the least version that will do."""
    if size(lowered(subject)) >= size(subject):
        return subject
    if (yield partial(lowered, subject)):
        return lowered(subject)
    best = subject
    for domain, least in least_versions(subject.model).items():
        best = yield from _lower(best, domain, least)
    return best


def _lower(subject: OnnxSubject, domain: str, least: int) -> SearchOf[OnnxSubject]:
    """Lower one domain's opset by bisection. Ask for the least first: too old a version rarely fails."""
    works = max(item.version for item in subject.model.opset_import if item.domain == domain)
    fails, version = least - 1, least
    while works - fails > 1:
        if (yield partial(lowered, subject, {domain: version})):
            works = version
        else:
            fails = version
        version = (works + fails) // 2
    found = lowered(subject, {domain: works})
    return found if size(found) < size(subject) else subject


Edit = Callable[[OnnxSubject], OnnxSubject | None]


def hide_names(subject: OnnxSubject, hints: Hints) -> Search:
    """All names and remarks at once; else kind by kind, and at last the tensors one by one."""
    edits: tuple[Edit, ...] = (*EDITS, renamed)
    everything = partial(_all_of, edits, subject)
    if everything() is None:
        return subject
    if (yield everything):
        return everything() or subject
    best: OnnxSubject = yield from one_by_one(subject, [partial(_all_of, (edit,)) for edit in edits])
    names = [old for old, new in new_names(best.model.graph).items() if old != new]
    return (yield from one_by_one(best, [partial(_rename_one, name) for name in names]))


def _all_of(edits: tuple[Edit, ...], subject: OnnxSubject) -> OnnxSubject | None:
    """The subject after all edits; None where they change nothing."""
    found = subject
    for edit in edits:
        found = edit(found) or found
    return None if found.model == subject.model else found


def _rename_one(name: str, subject: OnnxSubject) -> OnnxSubject | None:
    names = new_names(subject.model.graph)
    if names.get(name, name) == name or names[name] in names:
        return None
    return renamed(subject, frozenset(names).difference([name]))


def hide_strings(subject: OnnxSubject, hints: Hints) -> Search:
    """Every string becomes one of the same pattern, equal ones equal; where that is too much, one by one."""
    instead = {old: new for old, new in placeholders(subject).items() if old != new}
    if not instead:
        return subject
    everything = partial(with_strings, subject, instead)
    if (yield everything):
        return everything()
    singles = [partial(with_strings, instead={old: new}) for old, new in instead.items()]
    return (yield from one_by_one(subject, singles))


def hide_values(subject: OnnxSubject, hints: Hints) -> Search:
    """Other values of the same range, then of the same distribution; all, then tensor by tensor."""
    places = telling_places(subject)
    whole = [partial(with_values, subject, places, change) for change in CHANGES]
    best = yield from first_valid(subject, whole)
    if best is not subject:
        return best
    for place in places:
        singles = [partial(with_values, best, (place,), change) for change in CHANGES]
        best = yield from first_valid(best, singles)
    return best


def strip(subject: OnnxSubject, hints: Hints) -> Search:
    """Everything at once; where that is too much, one kind after the other."""
    changes = (_constants_lifted, _without_unread, _without_annotations, _without_documentation)
    everything = _changed(changes, subject)
    if size(everything) >= size(subject):
        return subject
    if (yield lambda: everything):
        return everything
    return (yield from smaller_by(subject, [partial(_changed, (change,)) for change in changes]))


def _changed(changes: Iterable[Callable[[onnx.ModelProto], None]], subject: OnnxSubject) -> OnnxSubject:
    model = deepcopy(subject.model)
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
    Move("strip annotations, documentation and Constant nodes", 100, strip, renames=True, on=OnnxSubject),
    Move("canonical names", 550, canonical_names, renames=True, reshapes=True, on=OnnxSubject),
    Move("lower operator sets", 551, lower_opsets, renames=True, on=OnnxSubject),
    Move("hide names", 910, hide_names, renames=True, hides=True, on=OnnxSubject),
    Move("hide strings", 920, hide_strings, reshapes=True, hides=True, on=OnnxSubject),
    Move("hide values", 930, hide_values, reshapes=True, hides=True, on=OnnxSubject),
)
