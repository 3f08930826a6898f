"""For `--private`: what is left of the author's names, strings and values gives way to plain ones.

These moves only run when asked for. They need not make a case smaller, and each of them proposes nothing
where there is nothing left to hide, so that running them again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from reducer.move import Hints, Move, Search, one_by_one
from reducer.moves.names import renamed
from reducer.private.strings import EDITS, placeholders, with_strings
from reducer.private.values import CHANGES, telling_places, with_values
from reducer.subject.onnx.naming import new_names
from reducer.subject.onnx.subject import OnnxSubject

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
    """Return the subject after all edits; None where they change nothing."""
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
    Move("hide names", 910, hide_names, renames=True, hides=True, on=OnnxSubject),
    Move("hide strings", 920, hide_strings, reshapes=True, hides=True, on=OnnxSubject),
    Move("hide values", 930, hide_values, reshapes=True, hides=True, on=OnnxSubject),
)
