"""A language of programs, to the reducer: the record that each module of `reducer/languages` makes.

At the end stands what languages of graphs of bindings share.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import language_in
from corpus.values import Value
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance, compare
from oracles.probes.graph_context import record_graph, recorded_outputs
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config
from reducer.engine.predicates import JudgePool
from reducer.move import Proposal
from reducer.subject.base import Facts, NodeSubject, Subject
from reducer.subject.graphs.subject import GraphSubject

S = TypeVar("S", bound=Subject)


@dataclass(frozen=True, kw_only=True)
class Language(Generic[S]):
    """What the session needs for the subjects of one class; a language leaves out what it does not have.

    `open` makes the subject of a whole case; the moves are those that work on its class, `subject`. `learn`
    gives it fresh facts, and the name of the node at which its un-optimised run breaks. `named_by_values` are
    the first bindings whose optimised values differ though their operands do not; `divergence` is where
    values differ in the program as the optimiser leaves it. `kept` are the original's nodes of which a part
    is left.
    """

    subject: type[S]
    open: Callable[[Case, JudgePool], S]
    learn: Callable[[S, Judge, Case], tuple[S, str]] = lambda subject, judge, like: (subject, "")
    named_by_values: Callable[[S, Judge, Case, Config], tuple[str, ...]] = lambda *_: ()
    divergence: Callable[[S, Judge, Case, Config], tuple[str, ...]] = lambda *_: ()
    kept: Callable[[Case, S], tuple[int, ...]] = lambda *_: ()

    printed: Callable[[Case, Judge], Mapping[str, bytes]] = lambda case, judge: {}
    """Files of the program as its own tools take it, that for users' commands first; none: the case's own."""

    has_nodes: bool = False
    """Whether a subject is a `NodeSubject`."""

    is_bounded: bool = False
    """Whether a candidate must run un-optimised, and keep the operator at which the framework stopped."""

    can_hide: bool = False
    """Whether there are moves that hide what the original said."""

    subsets: Callable[[S], Iterator[Iterable[Proposal]]] = lambda subject: iter(())
    """The proposals of each smaller subset of the nodes; none where there are too many."""


@cache
def language_of(format: str) -> Language[Any]:
    """The language of that name; UserError if there is none, or if nobody has said how it is reduced."""
    found: Language[Any] | None = language_in("reducer.languages", format)
    if found is None:
        raise UserError(f"{format} programs: crux does not know how to reduce them")
    return found


def open_nodes(case: Case, judge: Judge) -> tuple[NodeSubject, str] | None:
    """The subject of a case that is made of nodes, with facts, and the node at which its run breaks.

    None for a program of another kind.
    """
    language = language_of(case.format)
    if not language.has_nodes:
        return None
    subject = language.open(case, JudgePool(lambda: judge, judge))
    found: tuple[NodeSubject, str] = language.learn(subject, judge, case)
    return found


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
    return tuple(at for at, binding in enumerate(case.parsed.main.bindings) if binding.name in names)


GRAPHS = Language(
    subject=GraphSubject,
    open=open_graph,
    learn=learn_graph,
    named_by_values=_named_by_values,
    kept=_kept,
    has_nodes=True,
)
