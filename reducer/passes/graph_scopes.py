"""Fewer scopes in graphs of other formats than ONNX: a branch for its If, a function where it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from corpus.graph_program import CALL, REF, Binding, Graph, GraphProgram, tag_of
from reducer.graph_edits import redirect, without_unused
from reducer.graph_subject import GraphSubject
from reducer.move import Hints, Move, Search, one_by_one
from reducer.subject import Subject


def unfold(subject: Subject, hints: Hints) -> Search:
    """One If or call after the other: the first branch that still fails, the body of a function."""
    assert isinstance(subject, GraphSubject)
    bindings = subject.program.main.bindings
    changes: list[Callable[[Subject], Subject | None]] = []
    for binding in bindings:
        changes += [partial(_with_branch, binding.name, place) for place in range(len(binding.bodies))]
        changes += [partial(_with_body, binding.name)] if _callee(subject.program, binding) else []
    return (yield from one_by_one(subject, changes))


def _with_branch(name: str, place: int, subject: Subject) -> Subject | None:
    assert isinstance(subject, GraphSubject)
    binding = subject.bindings.get(name)
    if binding is None or place >= len(binding.bodies):
        return None
    return _replaced(subject, name, binding.bodies[place], {})


def _with_body(name: str, subject: Subject) -> Subject | None:
    """Only of a function that is called once: its names must stay unique."""
    assert isinstance(subject, GraphSubject)
    binding = subject.bindings.get(name)
    graph = _callee(subject.program, binding) if binding is not None else None
    if binding is None or graph is None:
        return None
    given = [item[REF] for item in binding.args[1:] if tag_of(item) == REF]
    taken = [item.name for item in graph.inputs]
    if len(given) != len(taken):
        return None
    return _replaced(subject, name, graph, dict(zip(taken, given, strict=True)))


def _callee(program: GraphProgram, binding: Binding) -> Graph | None:
    """The function that a binding calls, where nothing else does."""
    graphs = (program.main, *program.functions.values())
    called = [name for graph in graphs for each in graph.walk() for name in each.calls]
    first = binding.args[0] if binding.op == "call" and binding.args else None
    name = str(dict(first)[CALL]) if first is not None and tag_of(first) == CALL else ""
    return program.functions.get(name) if called.count(name) == 1 else None


def _replaced(subject: GraphSubject, name: str, graph: Graph, given: dict[str, str]) -> Subject | None:
    """The subject with a graph in place of one binding; None where that graph gives several results."""
    if len(graph.outputs) != 1:
        return None
    result = given.get(graph.outputs[0], graph.outputs[0])
    main = subject.program.main
    bindings = tuple(_spliced(main, name, graph, given, {name: result}))
    outputs = tuple(result if output == name else output for output in main.outputs)
    functions = {key: each for key, each in subject.program.functions.items() if each is not graph}
    program = replace(
        subject.program, main=replace(main, bindings=bindings, outputs=outputs), functions=functions
    )
    fresh = subject.with_program(without_unused(program), subject.inputs)
    return fresh if bindings and not fresh.complaint else None


def _spliced(
    main: Graph, name: str, graph: Graph, given: dict[str, str], instead: dict[str, str]
) -> Iterator[Binding]:
    for binding in main.bindings:
        if binding.name == name:
            yield from (redirect(inner, given) for inner in graph.bindings)
        else:
            yield redirect(binding, instead)


MOVES = (Move("unfold scopes", 180, unfold, reshapes=True, subjects=(GraphSubject,)),)
