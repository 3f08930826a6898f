"""The names that a model gives its nodes and values: they may stand in a message and mean nothing there."""

from __future__ import annotations

import re

import onnx

from corpus.case import Case
from corpus.graphs.program import GraphProgram
from corpus.onnx.graph import defined_names, walk_graphs, walk_model
from corpus.tir.scopes import defined_names as defined_in_loops
from corpus.tir.tree import Module
from oracles.abilities import language_of

_PLAIN_WORD = re.compile(r"[A-Za-z]+")


def names_of_case(case: Case) -> frozenset[str]:
    """The names in a case's program, whatever its language."""
    return language_of(case.format).names(case.parsed)


def names_of_loops(module: Module) -> frozenset[str]:
    """Return names as `names_of` does, for a module of PrimFuncs."""
    found = {name for function in module.functions.values() for name in defined_in_loops(function)}
    return frozenset(name for name in found | {*module.functions} if not _PLAIN_WORD.fullmatch(name))


def names_of_graph(program: GraphProgram) -> frozenset[str]:
    """Return names as `names_of` does, for a graph of another format."""
    return frozenset(name for name in program.names if not _PLAIN_WORD.fullmatch(name))


def pattern_of_graph(program: GraphProgram) -> str:
    """The types of what flows in, then the operators in order."""
    flowing = [item.dtype for item in program.main.inputs]
    flowing += [value.dtype.name for value in program.constants.values()]
    graphs = (program.main, *program.functions.values())
    every = [binding.op for graph in graphs for binding in graph.walk()]
    words = [op for op in every if op != "call"] if program.functions else every
    return " ".join([*sorted(set(flowing)), *words])


def names_of(model: onnx.ModelProto) -> frozenset[str]:
    """Every name of a node or value except plain words: `input` must not be cut out of a message."""
    names = {node.name for node in walk_model(model)}
    for node in walk_model(model):
        names.update(node.output)
    for graph in walk_graphs(model.graph):
        names |= defined_names(graph)
        names.add(graph.name)
    return frozenset(name for name in names if name and not _PLAIN_WORD.fullmatch(name))
