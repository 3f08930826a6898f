"""A case as the subject of a reduction, whatever its format; what the session asks of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from corpus.case import Case
from corpus.onnx.check import checker_complaint
from corpus.onnx.repair import repair
from corpus.values import Value
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance, compare
from oracles.probes.graph_record import record_graph, recorded_outputs
from oracles.probes.record import record
from oracles.run import Config
from oracles.sandbox.sandbox import Job
from reducer.engine.predicates import JudgePool
from reducer.subject.base import Facts, NodeSubject, Subject
from reducer.subject.graphs.subject import GraphSubject
from reducer.subject.loops.subject import LoopSubject
from reducer.subject.onnx.divergence import DivergedTensors, find_divergence
from reducer.subject.onnx.facts import learn
from reducer.subject.onnx.subject import OnnxSubject
from reducer.trace import kept_nodes

CLOSE = 3
"""How many bindings at which values part are named; the first of them is mostly the one."""

S = TypeVar("S", bound=Subject)


@dataclass(frozen=True)
class Kind(Generic[S]):
    """The functions that the session needs for the subjects of one class.

    `open` makes the subject of a whole case. `learn` gives it fresh facts, and the name of the node at which
    its un-optimised run breaks. `named_by_values` are the first bindings whose optimised values differ though
    their operands do not; `divergence` is where values differ in the program as the optimiser leaves it. `kept`
    are the original's nodes of which something is left. A kind returns nothing for what it does not know.
    """

    subject: type[S]
    open: Callable[[Case, JudgePool], S]
    learn: Callable[[S, Judge, Case], tuple[S, str]] = lambda subject, judge, like: (subject, "")
    named_by_values: Callable[[S, Judge, Case, Config], tuple[str, ...]] = lambda *_: ()
    divergence: Callable[[S, Judge, Case, Config], DivergedTensors] = lambda *_: DivergedTensors()
    kept: Callable[[Case, S], tuple[int, ...]] = lambda *_: ()


def kind_of(case: Case) -> Kind[Any]:
    """Return the kind of a case's subject, by its format."""
    return KINDS.get(case.format, GRAPHS)


def open_nodes(case: Case, judge: Judge) -> tuple[NodeSubject, str] | None:
    """Return the subject of a case that is made of nodes, with facts, and the node at which its run breaks.

    None for a program of another kind.
    """
    kind = kind_of(case)
    if not issubclass(kind.subject, NodeSubject):
        return None
    found: tuple[NodeSubject, str] = kind.learn(kind.open(case, JudgePool(lambda: judge, judge)), judge, case)
    return found


def _open_onnx(case: Case, pool: JudgePool) -> OnnxSubject:
    """Return the whole case, repaired."""
    model, _ = repair(case.parsed)
    is_sound = checker_complaint(model) is None
    return OnnxSubject(
        model, inputs=case.inputs, external=case.external, is_sound=is_sound, passes=case.passes
    )


def _learn_onnx(subject: OnnxSubject, judge: Judge, like: Case) -> tuple[OnnxSubject, str]:
    return learn(subject, lambda case: record(judge.executor, case), like)


def _parting(subject: OnnxSubject, judge: Judge, like: Case, config: Config) -> DivergedTensors:
    """Find where values differ by a run of the program as the optimiser leaves it."""
    case = subject.case(like)
    optimised = judge.executor.optimised(case, config)
    if optimised is None:
        return DivergedTensors()
    recording = record(judge.executor, replace(case, program=optimised.SerializeToString()))
    # what is plainly wrong tells more than the first rounding that differs
    plain = find_divergence(subject, optimised, recording.values, judge.tolerance)
    return plain if plain.rewritten else find_divergence(subject, optimised, recording.values, judge.screen)


def _kept_of_onnx(case: Case, reduced: OnnxSubject) -> tuple[int, ...]:
    return kept_nodes(case.parsed, reduced)


def open_graph(case: Case, pool: JudgePool) -> GraphSubject:
    """Return the subject of a graph of bindings; the judges' executors tell its types."""

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


def _kept_of_graph(case: Case, reduced: GraphSubject) -> tuple[int, ...]:
    names = {reduced.origin(binding.name) for binding in reduced.program.main.walk()}
    bindings = case.parsed.main.bindings
    return tuple(index for index, binding in enumerate(bindings) if binding.name in names)


def _open_loops(case: Case, pool: JudgePool) -> LoopSubject:
    return LoopSubject.of(case, case.parsed)


GRAPHS = Kind(GraphSubject, open_graph, learn_graph, _named_by_values, kept=_kept_of_graph)
"""Formats of graphs share theirs."""

KINDS: Mapping[str, Kind[Any]] = {
    "onnx": Kind(OnnxSubject, _open_onnx, _learn_onnx, divergence=_parting, kept=_kept_of_onnx),
    "tir": Kind(LoopSubject, _open_loops),
}
