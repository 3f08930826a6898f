"""Short names in reading order, no producer, the oldest operator sets: nothing that is only the author's.

These moves only run when asked for. They need not make a case smaller, and each of them proposes nothing
where there is nothing left to hide, so that running them again changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import onnx

from corpus.onnx.graph import rename, walk_model, walk_nodes
from reducer.move import Hints, Move, Search, SearchOf, one_by_one
from reducer.private.remains import EDITS, placeholders, with_strings
from reducer.private.values import CHANGES, telling_places, with_values
from reducer.subject.onnx.retype import drop_unused_sets, least_versions, lowered
from reducer.subject.onnx.subject import (
    OnnxSubject,
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
    choices: list[Callable[[], OnnxSubject]] = [partial(_with_older_sets, subject), partial(renamed, subject)]
    if subject.model.functions:
        choices.append(partial(renamed, subject, functions=False))
    if size(renamed(subject)) < size(subject):
        for proposal in choices:
            if size(proposal()) < size(subject) and (yield proposal):
                return proposal()
    return subject


def _with_older_sets(subject: OnnxSubject) -> OnnxSubject:
    return lowered(renamed(subject))


def renamed(
    subject: OnnxSubject, stay: frozenset[str] = frozenset(), *, functions: bool = True
) -> OnnxSubject:
    """The subject under short names, but for those that are to stay."""
    model = onnx.ModelProto()
    model.CopyFrom(subject.model)
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
    singles: list[Mapping[str, str]] = [{old: new} for old, new in instead.items()]
    return (yield from one_by_one(subject, [partial(_with_strings, single) for single in singles]))


def _with_strings(instead: Mapping[str, str], subject: OnnxSubject) -> OnnxSubject:
    return with_strings(subject, instead)


def hide_values(subject: OnnxSubject, hints: Hints) -> Search:
    """Other values of the same range, then of the same distribution; all, then tensor by tensor.

    The last resort changes every eighth value, so that no run of eight is left.
    """
    places = telling_places(subject)
    for change in CHANGES[:2]:
        everything = partial(with_values, subject, places, change)
        if everything() is not None and (yield everything):
            return everything() or subject
    best = subject
    for place in places:
        for change in CHANGES:
            single = partial(with_values, best, (place,), change)
            if single() is not None and (yield single):
                best = single() or best
                break
    return best


MOVES = (
    Move("canonical names", 550, canonical_names, renames=True, reshapes=True, on=OnnxSubject),
    Move("lower operator sets", 551, lower_opsets, renames=True, on=OnnxSubject),
    Move("hide names", 910, hide_names, renames=True, hides=True, on=OnnxSubject),
    Move("hide strings", 920, hide_strings, reshapes=True, hides=True, on=OnnxSubject),
    Move("hide values", 930, hide_values, reshapes=True, hides=True, on=OnnxSubject),
)
