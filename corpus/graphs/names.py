"""The names of a graph program: given anew, or made plain for the canonical form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from corpus.graphs.program import (
    CALL,
    GRAPH,
    REF,
    Graph,
    GraphProgram,
    Json,
    graph_of_json,
    graph_to_json,
    tag_of,
)


def renamed(program: GraphProgram, names: Mapping[str, str]) -> GraphProgram:
    """The program under other names, wherever they stand."""

    def rename(item: Json) -> Json:
        for tag in (REF, CALL):
            if tag_of(item) == tag:
                return {tag: names.get(item[tag], item[tag])}
        return item

    def graph(old: Graph) -> Graph:
        return Graph(
            tuple(replace(item, name=names.get(item.name, item.name)) for item in old.inputs),
            tuple(
                replace(each.mapped(inner).mapped(rename), name=names.get(each.name, each.name))
                for each in old.bindings
            ),
            tuple(names.get(name, name) for name in old.outputs),
            old.facts,
        )

    def inner(item: Json) -> Json:
        return {GRAPH: graph_to_json(graph(graph_of_json(item[GRAPH])))} if tag_of(item) == GRAPH else item

    def table(old: Mapping[str, Any]) -> dict[str, Any]:
        return {names.get(name, name): value for name, value in old.items()}

    functions = {names.get(name, name): graph(old) for name, old in program.functions.items()}
    return replace(
        program,
        main=graph(program.main),
        constants=table(program.constants),
        functions=functions,
        opaque=table(program.opaque),
        loops=table(program.loops),
    )


def plain_names(program: GraphProgram) -> dict[str, str]:
    """Map old names to plain ones: inputs x0…, constants w0…, functions f0…, results y0… or t0… in order."""
    counts: dict[str, int] = {}
    names: dict[str, str] = {}

    def give(name: str, letter: str) -> None:
        if name not in names:
            counts[letter] = counts.get(letter, -1) + 1
            names[name] = f"{letter}{counts[letter]}"

    def visit(graph: Graph, letter: str, top: bool) -> None:
        for item in graph.inputs:
            give(item.name, letter)
        for binding in graph.bindings:
            for body in binding.bodies:
                visit(body, "b", False)
            give(binding.name, "y" if top and binding.name in graph.outputs else "t")

    for name in program.constants:
        give(name, "w")
    for name in (*program.functions, *program.opaque, *program.loops):
        give(name, "f")
    visit(program.main, "x", True)
    for graph in program.functions.values():
        visit(graph, "p", False)
    return names


def canonical(program: GraphProgram) -> bytes:
    """The program under plain names."""
    return renamed(program, plain_names(program)).to_bytes()
