"""Plainer element types in graphs of other formats than ONNX: everywhere at once, else here and there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from corpus.graphs.program import Binding
from corpus.onnx.types import DTYPES
from corpus.values import Tensor
from reducer.move import Hints, Move, Search, smaller_by
from reducer.moves.dtypes import LATTICE, cast
from reducer.subject.graphs.dtypes import dtype_words, with_dtype
from reducer.subject.graphs.edits import change_flow
from reducer.subject.graphs.subject import GraphSubject

PLAINER = {DTYPES[old].name: [DTYPES[new].name for new in plainer] for old, plainer in LATTICE.items()}
"""By element type the plainer ones, as the formats of graphs call them."""

Chooser: TypeAlias = Callable[[str], bool]


def plain_dtypes(subject: GraphSubject, hints: Hints) -> Search:
    """One element type after the other, in tensors and arguments alike; then in each of them alone."""
    best = yield from smaller_by(subject, _throughout(subject))
    return (yield from smaller_by(best, _alone(best)))


def _throughout(subject: GraphSubject) -> Iterator[Callable[[GraphSubject], GraphSubject | None]]:
    for old in sorted(_dtypes(subject) & PLAINER.keys()):
        for new in PLAINER[old]:
            yield partial(_retyped, old, new, lambda name: True)


def _alone(subject: GraphSubject) -> Iterator[Callable[[GraphSubject], GraphSubject | None]]:
    """Changes at one place each, where an element type is found at several."""
    places = [
        (name, {str(array.dtype.name)})
        for name in subject.sources
        if (array := subject.array(name)) is not None
    ]
    places += [(binding.name, set(dtype_words(binding))) for binding in subject.program.main.bindings]
    for name, dtypes in places:
        for old in sorted(dtypes & PLAINER.keys()):
            is_alone = sum(old in others for _, others in places) == 1
            for new in () if is_alone else PLAINER[old]:
                yield partial(_retyped, old, new, partial(str.__eq__, name))


def _dtypes(subject: GraphSubject) -> set[str]:
    arrays = (subject.array(name) for name in subject.sources)
    words = {word for binding in subject.program.main.walk() for word in dtype_words(binding)}
    return words | {array.dtype.name for array in arrays if array is not None}


def _retyped(old: str, new: str, is_chosen: Chooser, subject: GraphSubject) -> GraphSubject | None:
    """The chosen tensors and bindings with `new` for `old`; None where nothing is, or it does not type."""
    changed: dict[str, Tensor] = {}
    for name in filter(is_chosen, subject.sources):
        array = subject.array(name)
        if array is not None and array.dtype.name == old:
            changed[name] = cast(array, DTYPES_BY_NAME[new])

    def edit(binding: Binding) -> Binding:
        return with_dtype(old, new, binding) if is_chosen(binding.name) else binding

    if not changed and all(edit(binding) == binding for binding in subject.program.main.bindings):
        return None
    return change_flow(subject, changed, edit)


DTYPES_BY_NAME = {dtype.name: dtype for dtype in DTYPES.values()}

MOVES = (Move("plain dtypes", 450, plain_dtypes, reshapes=True, on=GraphSubject),)
