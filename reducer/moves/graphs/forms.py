"""Graphs of other formats than ONNX: plain names, layouts in memory, static dims, fewer arguments."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from corpus.graphs.format import plain_names, renamed
from corpus.graphs.program import Binding, GraphProgram, tag_of
from corpus.graphs.static import with_static_dims
from corpus.onnx.types import DTYPES
from corpus.values import Tensor
from reducer.move import Hints, Move, Search, one_by_one, smaller_by
from reducer.moves.values import LATTICE, cast
from reducer.subject.base import Facts
from reducer.subject.graphs.edits import change_flow
from reducer.subject.graphs.subject import GraphSubject, dtype_words, with_dtype
from reducer.subject.order import size


def plain_graph_names(subject: GraphSubject, hints: Hints) -> Search:
    """All at once."""
    shorter = under_plain_names(subject)
    if size(shorter) < size(subject) and (yield lambda: shorter):
        return shorter
    return subject


def under_plain_names(subject: GraphSubject) -> GraphSubject:
    """The subject with what is known of it under plain names."""
    names = plain_names(subject.program)
    values = {names[name]: value for name, value in subject.facts.values.items() if name in names}
    return replace(
        subject,
        program=renamed(subject.program, names),
        inputs={names[name]: value for name, value in subject.inputs.items()},
        facts=Facts(values=values),
        origins={new: subject.origin(old) for old, new in names.items()},
    )


def static_dims(subject: GraphSubject, hints: Hints) -> Search:
    """Symbolic dims of inputs become the sizes that they have here."""
    return (yield from one_by_one(subject, [_with_static_dims]))


def _with_static_dims(subject: GraphSubject) -> GraphSubject | None:
    static = with_static_dims(subject.program, subject.inputs)
    return _valid(subject, static) if static != subject.program else None


def plain_types(subject: GraphSubject, hints: Hints) -> Search:
    """Inputs of any type, dtype, rank or layout are declared as what they are given, one at a time."""
    told = [item.name for item in subject.program.main.inputs if tag_of(item.declared) in OPEN]
    return (yield from one_by_one(subject, [partial(_declared_plain, name) for name in told]))


OPEN = ("tensor", "any", "layout")
"""What leaves open of a tensor that is passed what it is like, or says how it lies in memory."""


def _declared_plain(name: str, subject: GraphSubject) -> GraphSubject | None:
    main = subject.program.main
    inputs = tuple(replace(item, declared=None) if item.name == name else item for item in main.inputs)
    return _valid(subject, replace(subject.program, main=replace(main, inputs=inputs)))


WHOLE = ("attrs", "attributes")
"""What TVM's operators cannot do without: it reads them unasked."""


def drop_arguments(subject: GraphSubject, hints: Hints) -> Search:
    """One keyword argument at a time; what has a default does without."""
    bindings = subject.program.main.bindings
    places = [(binding.name, key) for binding in bindings for key in binding.kwargs if key not in WHOLE]
    return (yield from one_by_one(subject, [partial(_without, name, key) for name, key in places]))


def _without(name: str, key: str, subject: GraphSubject) -> GraphSubject | None:
    bindings = tuple(_trimmed(subject.program, name, key))
    return _valid(subject, replace(subject.program, main=replace(subject.program.main, bindings=bindings)))


def _trimmed(program: GraphProgram, name: str, key: str) -> Iterator[Binding]:
    for binding in program.main.bindings:
        if binding.name == name:
            kwargs = {other: item for other, item in binding.kwargs.items() if other != key}
            yield replace(binding, kwargs=kwargs)
        else:
            yield binding


def _valid(subject: GraphSubject, program: GraphProgram) -> GraphSubject | None:
    if program == subject.program:
        return None
    fresh = subject.with_program(program, subject.inputs)
    return fresh if not fresh.complaint else None


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


MOVES = (
    Move("plain types", 455, plain_types, on=GraphSubject),
    Move("static dims", 460, static_dims, on=GraphSubject),
    Move("drop arguments", 470, drop_arguments, reshapes=True, on=GraphSubject),
    Move("plain names", 550, plain_graph_names, renames=True, on=GraphSubject),
    Move("plain dtypes", 450, plain_dtypes, reshapes=True, on=GraphSubject),
)
