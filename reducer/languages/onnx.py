"""ONNX models, to the reducer."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from corpus.case import Case
from corpus.onnx.check import checker_complaint, repair
from oracles.judge import Judge
from oracles.probes.record import record
from oracles.verdict import Config
from reducer.engine.predicates import JudgePool
from reducer.language import Language
from reducer.move import Proposal
from reducer.moves.exhaust_small import MOST_NODES, proposals, subsets
from reducer.result import kept_nodes
from reducer.subject.onnx.divergence import find_divergence, learn
from reducer.subject.onnx.subject import OnnxSubject


def _open(case: Case, pool: JudgePool) -> OnnxSubject:
    """The whole case, repaired."""
    model, _ = repair(case.parsed)
    kept = {name: getattr(case, name) for name in ("inputs", "external", "passes", "earlier")}
    return OnnxSubject(model, is_sound=checker_complaint(model) is None, **kept)


def _learn(subject: OnnxSubject, judge: Judge, like: Case) -> tuple[OnnxSubject, str]:
    return learn(subject, lambda case: record(judge.executor, case), like)


def _parting(subject: OnnxSubject, judge: Judge, like: Case, config: Config) -> tuple[str, ...]:
    """Find where values differ by a run of the program as the optimiser leaves it."""
    case = subject.case(like)
    optimised = judge.executor.optimised(case, config)
    if optimised is None:
        return ()
    recording = record(judge.executor, replace(case, program=optimised.SerializeToString()))
    # what is plainly wrong tells more than the first rounding that differs
    plain = find_divergence(subject, optimised, recording.values, judge.tolerance)
    return plain or find_divergence(subject, optimised, recording.values, judge.screen)


def _kept(case: Case, reduced: OnnxSubject) -> tuple[int, ...]:
    return kept_nodes(case.parsed, reduced)


def _subsets(subject: OnnxSubject) -> Iterator[Iterable[Proposal]]:
    if len(subject.nodes) <= MOST_NODES:
        yield from (proposals(subject, keep) for keep in subsets(subject))


LANGUAGE = Language(
    subject=OnnxSubject,
    open=_open,
    learn=_learn,
    divergence=_parting,
    kept=_kept,
    has_nodes=True,
    is_bounded=True,
    can_hide=True,
    subsets=_subsets,
)
