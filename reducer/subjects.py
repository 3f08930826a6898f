"""A case as the subject of a reduction, whatever its format; what the session asks of either kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from corpus.case import Case
from corpus.formats.onnx import checker_complaint, parse, repair
from corpus.target import Target
from corpus.values import Value
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance, compare
from oracles.probes.graph_record import record_graph, recorded_outputs
from oracles.probes.record import record
from oracles.run import Config
from oracles.sandbox.sandbox import Job
from oracles.sequence import misplaced
from reducer.engine.predicates import JudgePool
from reducer.subject.base import Facts
from reducer.subject.facts import learn
from reducer.subject.graph import Describe, GraphSubject
from reducer.subject.loops import LoopSubject
from reducer.subject.onnx import Subject
from reducer.trace import kept_nodes

CLOSE = 3
"""How many bindings at which values part are named; the first of them is mostly the one."""


def kind_of(case: Case) -> type[Subject]:
    """The class of a case's subject, by its format."""
    return {"onnx": Subject, "tir": LoopSubject}.get(case.format, GraphSubject)


def open_subject(case: Case, pool: JudgePool) -> Subject:
    """The whole case, repaired where it is an ONNX model."""
    if case.format == "tir":
        return LoopSubject.of(case, case.parsed)
    if case.format != "onnx":
        return GraphSubject.of(case, case.parsed, _describer(pool))
    model, _ = repair(parse(case.program))
    is_sound = checker_complaint(model) is None
    return Subject(model, case.inputs, external=case.external, is_sound=is_sound, passes=case.passes)


def _describer(pool: JudgePool) -> Describe:
    def describe(program: bytes, inputs: Mapping[str, Value]) -> Mapping[str, Any]:
        with pool.one() as judge:
            return judge.executor.describe(program, inputs)

    return describe


def is_valid(subject: Subject) -> bool:
    """Whether the format's own check accepts a candidate, at no cost in verdicts."""
    if isinstance(subject, LoopSubject):
        return subject.is_valid
    if isinstance(subject, GraphSubject):
        return not subject.complaint
    return not subject.is_sound or checker_complaint(subject.model) is None


def misplaced_passes(subject: Subject, target: Target, format: str) -> str:
    """Why the target cannot run a candidate's own passes in their order; empty where it can."""
    program = subject.document if isinstance(subject, LoopSubject) else b""
    return misplaced(subject.passes, target, format, program)


def learn_facts(subject: Subject, judge: Judge, like: Case) -> tuple[Subject, str]:
    """The subject with fresh facts, and the name of the node at which its un-optimised run breaks."""
    if isinstance(subject, LoopSubject):
        return subject, ""
    if not isinstance(subject, GraphSubject):
        return learn(subject, lambda case: record(judge.executor, case), like)
    job = Job(subject.document, subject.inputs, judge.configs[:1], format=like.format)
    recording = record_graph(subject.program, job, judge.executor.rerun)
    told = judge.executor.describe(subject.document, subject.inputs)
    types, numbers = told.get("types", {}), frozenset(told.get("numbers", ()))
    shapes = {name: tuple(dims) for name, (_, dims) in types.items() if dims is not None}
    learned = replace(subject, facts=Facts(values=recording.values), shapes=shapes, numbers=numbers)
    return learned, recording.crashed_at or ""


def named_by_values(subject: Subject, judge: Judge, like: Case, config: Config) -> tuple[str, ...]:
    """The first bindings whose optimised values differ though their operands do not; empty of ONNX models."""
    if not isinstance(subject, GraphSubject):
        return ()
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


def kept_of(case: Case, reduced: Subject) -> tuple[int, ...]:
    """The original's nodes of which something is left."""
    if isinstance(reduced, LoopSubject):
        return ()
    if not isinstance(reduced, GraphSubject):
        return kept_nodes(case.parsed, reduced)
    names = {reduced.origin(binding.name) for binding in reduced.program.main.walk()}
    bindings = case.parsed.main.bindings
    return tuple(index for index, binding in enumerate(bindings) if binding.name in names)
