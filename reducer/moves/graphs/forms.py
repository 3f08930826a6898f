"""Graphs of other formats than ONNX: plain names, layouts in memory, static dims, fewer arguments.

Functions that stay, because the bug needs several calls, are given less and give back less: sizes of several
calls, or what a call leaves behind, can be the bug, and then no call gives way to the body.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from corpus.graphs.format import plain_names, renamed
from corpus.graphs.program import Binding, Graph, GraphProgram, tag_of
from corpus.graphs.static import callee, with_static_dims
from corpus.onnx.types import DTYPES
from corpus.values import Tensor
from reducer.move import Hints, Move, Search, first_smaller, one_by_one, smaller_by
from reducer.moves.graphs.bodies import changed_graphs
from reducer.moves.values import LATTICE, cast
from reducer.subject.base import Facts
from reducer.subject.graphs.edits import change_flow, redirect, without_unused
from reducer.subject.graphs.subject import GraphSubject, dtype_words, with_dtype


def plain_graph_names(subject: GraphSubject, hints: Hints) -> Search:
    """All at once."""
    return (yield from first_smaller(subject, [partial(under_plain_names, subject)]))


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
    return _valid(subject, with_static_dims(subject.program, subject.inputs))


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
    main = subject.program.main
    bindings = tuple(_trimmed(each, key) if each.name == name else each for each in main.bindings)
    return _valid(subject, replace(subject.program, main=replace(main, bindings=bindings)))


def _trimmed(binding: Binding, key: str) -> Binding:
    return replace(binding, kwargs={other: item for other, item in binding.kwargs.items() if other != key})


def _valid(subject: GraphSubject, program: GraphProgram) -> GraphSubject | None:
    return subject.valid_with(program) if program != subject.program else None


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


Change = Callable[[GraphSubject], GraphSubject | None]


def drop_parameters(subject: GraphSubject, hints: Hints) -> Search:
    """A parameter that nothing in its function reads goes, and what each call passes for it."""
    return (yield from smaller_by(subject, list(_parameters(subject.program))))


def return_earlier(subject: GraphSubject, hints: Hints) -> Search:
    """A function gives back what one of its bindings gives, the first that will do."""
    return (yield from smaller_by(subject, list(_earlier_results(subject.program))))


def return_alone(subject: GraphSubject, hints: Hints) -> Search:
    """A function of several results gives back one of them, where nothing reads another."""
    functions = subject.program.functions.items()
    changes = [
        partial(_returning_alone, name, place)
        for name, graph in functions
        for place in range(len(graph.outputs))
    ]
    return (yield from smaller_by(subject, changes))


def _returning_alone(name: str, place: int, subject: GraphSubject) -> GraphSubject | None:
    graph, program = subject.program.functions.get(name), subject.program
    if graph is None or len(graph.outputs) <= max(place, 1):
        return None
    calls = {each.name for each in program.main.bindings if callee(each) == name}
    members = [each for each in program.main.bindings if each.op == "getitem" and calls & {*each.reads}]
    if calls & {*program.main.outputs} or any(each.args[1] != place for each in members):
        return None
    instead = {each.name: each.reads[0] for each in members}
    kept = [redirect(each, instead) for each in program.main.bindings if each.name not in instead]
    outputs = tuple(instead.get(each, each) for each in program.main.outputs)
    main = replace(program.main, bindings=tuple(kept), outputs=outputs)
    functions = {**program.functions, name: _giving(graph, graph.outputs[place])}
    return subject.valid_with(without_unused(replace(program, main=main, functions=functions)))


def _giving(graph: Graph, result: str) -> Graph:
    """The function with one result, which its declared type does not say."""
    facts = {key: item for key, item in graph.facts.items() if key not in ("returns", "tuple")}
    return replace(graph, outputs=(result,), facts=facts)


def _parameters(program: GraphProgram) -> Iterator[Change]:
    for name, graph in program.functions.items():
        read = {each for binding in graph.bindings for each in binding.reads} | {*graph.outputs}
        for item in reversed(graph.inputs):
            if item.name not in read:
                yield partial(_without_parameter, name, item.name)


def _without_parameter(name: str, parameter: str, subject: GraphSubject) -> GraphSubject | None:
    graph = subject.program.functions.get(name)
    places = [item.name for item in graph.inputs] if graph is not None else []
    if graph is None or parameter not in places:
        return None
    place = places.index(parameter)
    program = _changed(subject.program, lambda each: _shorter(each, name, place))
    taken = tuple(item for item in graph.inputs if item.name != parameter)
    functions = {**program.functions, name: replace(program.functions[name], inputs=taken)}
    program = replace(program, functions=functions)
    read = {each for binding in program.main.walk() for each in binding.reads} | {*program.main.outputs}
    main = replace(program.main, inputs=tuple(item for item in program.main.inputs if item.name in read))
    return subject.valid_with(without_unused(replace(program, main=main)))


def _shorter(binding: Binding, name: str, place: int) -> Binding:
    """A call of the function without one of its operands; any other binding as it is."""
    args = binding.args[: place + 1] + binding.args[place + 2 :]
    return replace(binding, args=args) if callee(binding) == name else binding


def _changed(program: GraphProgram, change: Callable[[Binding], Binding]) -> GraphProgram:
    """The program with each binding changed, wherever it stands."""

    def graph(each: Graph) -> Graph:
        return replace(each, bindings=tuple(map(change, each.bindings)))

    inner = changed_graphs(program, graph)
    return replace(inner, main=graph(inner.main))


def _earlier_results(program: GraphProgram) -> Iterator[Change]:
    for name, graph in program.functions.items():
        yield from (partial(_returning, name, each.name) for each in graph.bindings)


def _returning(name: str, result: str, subject: GraphSubject) -> GraphSubject | None:
    """The subject with this binding's value as the function's only result, and with what that needs."""
    graph = subject.program.functions.get(name)
    if graph is None or result not in (each.name for each in graph.bindings) or graph.outputs == (result,):
        return None
    needed, kept = {result}, list[Binding]()
    for binding in reversed(graph.bindings):
        if binding.name in needed:
            needed.update(binding.reads)
            kept.insert(0, binding)
    shorter = replace(graph, bindings=tuple(kept))
    functions = {**subject.program.functions, name: _giving(shorter, result)}
    return subject.valid_with(without_unused(replace(subject.program, functions=functions)))


MOVES = (
    Move("plain types", 455, plain_types, on=GraphSubject),
    Move("static dims", 460, static_dims, on=GraphSubject),
    Move("drop arguments", 470, drop_arguments, reshapes=True, on=GraphSubject),
    Move("plain names", 550, plain_graph_names, renames=True, on=GraphSubject),
    Move("plain dtypes", 450, plain_dtypes, reshapes=True, on=GraphSubject),
    Move("return one result of functions", 284, return_alone, reshapes=True, on=GraphSubject),
    Move("return what functions make earlier", 285, return_earlier, reshapes=True, on=GraphSubject),
    Move("drop parameters of functions", 290, drop_parameters, reshapes=True, on=GraphSubject),
)
