"""Functions of a module that stay, because the bug needs several calls: what they are given and give back.

Sizes of several calls, or what a call leaves behind, can be the bug: then no call gives way to the body.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from corpus.graphs.program import Binding, Graph, GraphProgram
from corpus.graphs.static import callee
from reducer.move import Hints, Move, Search, smaller_by
from reducer.moves.graphs.bodies import changed_graphs
from reducer.subject.graphs.edits import redirect, without_unused
from reducer.subject.graphs.subject import GraphSubject

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
        partial(_alone, name, place) for name, graph in functions for place in range(len(graph.outputs))
    ]
    return (yield from smaller_by(subject, changes))


def _alone(name: str, place: int, subject: GraphSubject) -> GraphSubject | None:
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
    return _valid(subject, replace(program, main=main, functions=functions))


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
    return _valid(subject, replace(program, main=main))


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
    return _valid(subject, replace(subject.program, functions=functions))


def _valid(subject: GraphSubject, program: GraphProgram) -> GraphSubject | None:
    fresh = subject.with_program(without_unused(program), subject.inputs)
    return None if fresh.complaint else fresh


MOVES = (
    Move("return one result of functions", 284, return_alone, reshapes=True, on=GraphSubject),
    Move("return what functions make earlier", 285, return_earlier, reshapes=True, on=GraphSubject),
    Move("drop parameters of functions", 290, drop_parameters, reshapes=True, on=GraphSubject),
)
