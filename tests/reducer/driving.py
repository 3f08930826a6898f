"""Models from text, subjects with recorded values, and a move driven by a predicate in Python."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import parser, printer

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import walk_nodes
from corpus.onnx.inputs import make_inputs
from corpus.target import Target
from corpus.values import Value
from oracles.judge import Judge
from oracles.probes.record import record
from reducer.engine.decider import Decider
from reducer.engine.journal import Answer, Journal
from reducer.engine.rounds import Engine, Gate
from reducer.move import Hints, Move, Proposal
from reducer.moves import all_moves
from reducer.subject.onnx.divergence import learn
from reducer.subject.onnx.subject import OnnxSubject

ORT = Target("ort")
OPSETS = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
IsInteresting = Callable[[onnx.ModelProto], bool]


def model_of(text: str, header: str = OPSETS) -> onnx.ModelProto:
    return parser.parse_model(f"{header} {text}")


def graph_text(model: onnx.ModelProto) -> str:
    """The graph in text form, with its name left out and its blanks joined."""
    graph = onnx.GraphProto()
    graph.CopyFrom(model.graph)
    graph.name = "g"
    return " ".join(printer.to_text(graph).split())


def case_of(model: onnx.ModelProto, inputs: Mapping[str, Value] | None = None) -> Case:
    program = model.SerializeToString(deterministic=True)
    return Case("onnx", program, make_inputs(model, 0) if inputs is None else inputs, ORT)


def subject_of(judge: Judge, case: Case) -> OnnxSubject:
    """What a reduction starts from: the model with the types and values of all that flows in it."""
    bare = OnnxSubject(parse(case.program), inputs=case.inputs, external=case.external)
    return learn_with(judge, case)(bare)


def learn_with(judge: Judge, like: Case) -> Callable[[OnnxSubject], OnnxSubject]:
    return lambda subject: learn(subject, lambda case: record(judge.executor, case), like)[0]


def find_move(name: str) -> Move:
    return next(move for move in all_moves(OnnxSubject) if move.name == name)


@dataclass
class Driven:
    """Where a move ended, every candidate that it built on the way, and how often it asked."""

    subject: OnnxSubject
    candidates: list[OnnxSubject] = field(default_factory=list)
    asked: int = 0


def drive(
    move: Move,
    subject: OnnxSubject,
    is_interesting: Callable[[onnx.ModelProto, Mapping[str, Value]], bool],
    hints: Hints | None = None,
) -> Driven:
    """Run one move's search to its end; candidates that the checker rejects are not asked."""
    driven = Driven(subject)

    def answer(proposal: Proposal) -> bool:
        candidate = proposal()
        if candidate is None:
            return False
        driven.candidates.append(candidate)
        if checker_complaint(candidate.model) is not None:
            return False
        driven.asked += 1
        return is_interesting(candidate.model, candidate.inputs)

    driven.subject = ended(move.search(subject, hints or Hints()), answer)
    return driven


def ended(search: Generator[Any, bool, Any], answer: Callable[[Any], bool]) -> Any:
    """What a search ends with if `answer` says of each proposal whether it still fails."""
    try:
        proposal = next(search)
        while True:
            proposal = search.send(answer(proposal))
    except StopIteration as end:
        return end.value


def is_accepted(subject: OnnxSubject) -> bool:
    return checker_complaint(subject.model) is None


def operators(model: onnx.ModelProto) -> list[str]:
    """The operators of the main graph and its bodies, sorted."""
    return sorted(node.op_type for node in walk_nodes(model.graph))


def has(*wanted: str) -> IsInteresting:
    """A predicate: all these operators occur."""
    return lambda model: set(wanted) <= set(operators(model))


def always(model: onnx.ModelProto) -> bool:
    return True


@dataclass
class Counting:
    """A predicate on cases, from one on models; remembers what it was asked."""

    is_interesting: IsInteresting
    asked: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, case: Case) -> Answer:
        with self._lock:
            self.asked.append(case.case_id)
        return Answer(self.is_interesting(parse(case.program)))


@contextmanager
def engine_for(
    judge: Judge, case: Case, predicate: Callable[[Case], Answer], jobs: int = 1
) -> Iterator[Engine]:
    """The engine as a reduction sets it up, with a journal in memory."""
    journal = Journal(Path("unused"), {})
    decider = Decider(predicate, journal, jobs=jobs)
    gate = Gate(decider, case, is_accepted)
    try:
        yield Engine(gate, all_moves(OnnxSubject), Hints(), learn_with(judge, case))
    finally:
        decider.close()


def run_to_end(engine: Engine, subject: OnnxSubject) -> OnnxSubject:
    for better in engine.run(subject):
        subject = better
    return subject
