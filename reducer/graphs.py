"""Graphs of bindings, to the reducer: what their languages share."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from corpus.case import Case
from corpus.values import Value
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance, compare
from oracles.probes.graph_context import record_graph, recorded_outputs
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config
from reducer.engine.predicates import JudgePool
from reducer.language import Language
from reducer.subject.base import Facts
from reducer.subject.graphs.subject import GraphSubject

CLOSE = 3
"""How many bindings at which values part are named; the first of them is mostly the one."""


def open_graph(case: Case, pool: JudgePool) -> GraphSubject:
    """The subject of a graph of bindings; the judges' executors tell its types."""

    def describe(program: bytes, inputs: Mapping[str, Value]) -> Mapping[str, Any]:
        with pool.one() as judge:
            return judge.executor.describe(program, inputs)

    return GraphSubject.of(case, case.parsed, describe)


def learn_graph(subject: GraphSubject, judge: Judge, like: Case) -> tuple[GraphSubject, str]:
    """The subject with fresh facts, and the name of the binding at which its un-optimised run breaks."""
    job = Job(subject.document, subject.inputs, judge.configs[:1], format=like.format)
    recording = record_graph(subject.program, job, judge.executor.rerun)
    told = judge.executor.describe(subject.document, subject.inputs)
    types, numbers = told.get("types", {}), frozenset(told.get("numbers", ()))
    shapes = {name: tuple(dims) for name, (_, dims) in types.items() if dims is not None}
    learned = replace(subject, facts=Facts(values=recording.values), shapes=shapes, numbers=numbers)
    return learned, recording.crashed_at or ""


def _named_by_values(subject: GraphSubject, judge: Judge, like: Case, config: Config) -> tuple[str, ...]:
    job = Job(subject.document, subject.inputs, (config,), format=like.format)
    values = recorded_outputs(subject.program, job, judge.executor.run)
    wrong: set[str] = set()
    first: list[str] = []
    for binding in subject.program.main.bindings:
        if _parts(binding.name, subject, values, judge.screen):
            if wrong.isdisjoint(binding.reads):
                first.append(binding.name)
            wrong.add(binding.name)
    return tuple(first[:CLOSE])


def _parts(name: str, subject: GraphSubject, values: Mapping[str, Value], tolerance: Tolerance) -> bool:
    expected, actual = subject.facts.values.get(name), values.get(name)
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return False
    return compare(name, expected, actual, tolerance) is not None


def _kept(case: Case, reduced: GraphSubject) -> tuple[int, ...]:
    names = {reduced.origin(binding.name) for binding in reduced.program.main.walk()}
    bindings = case.parsed.main.bindings
    return tuple(index for index, binding in enumerate(bindings) if binding.name in names)


GRAPHS = Language(
    subject=GraphSubject,
    open=open_graph,
    learn=learn_graph,
    named_by_values=_named_by_values,
    kept=_kept,
    has_nodes=True,
)
