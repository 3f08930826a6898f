"""What lies behind the failure that stops a program: its node is cut out, and its value stands in for it.

The value is the one that the un-optimised reference recorded; where there is none, all that reads it goes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from corpus.case import Case
from oracles.judge import Judge
from oracles.verdict import Mark, Outcome, Verdict
from reducer.language import open_nodes
from reducer.subject.base import NodeSubject

MOST_STOPS = 20
"""Failures that are looked past, at most."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A failure that stops a program, and its node; `alone` is that node by itself, if that fails, too."""

    node: str
    operator: str
    case: Case
    verdict: Verdict
    alone: Case | None

    @property
    def is_limit(self) -> bool:
        """Whether the compiler says itself that it does not do this."""
        return Mark.LIMIT in self.verdict.marks or self.verdict.outcome is Outcome.UNSUPPORTED


def stops_in(case: Case, judge: Judge, verdict: Verdict) -> Iterator[Stop | Verdict]:
    """Yield each failure in turn, the first with this verdict, and at last the verdict on what is left.

    Nothing comes for a program that is not made of nodes.
    """
    opened = open_nodes(case, judge)
    if opened is None:
        return
    subject, left = opened[0], tuple(range(len(opened[0].nodes)))
    for _ in range(MOST_STOPS):
        if not _stops(verdict):
            break
        place = _culprit(subject, left, case, judge, verdict)
        node = subject.nodes[place]
        alone = _cut(subject, (place,), case)
        shows = alone is not None and _is_same(judge.verdict(alone), verdict)
        yield Stop(node.name or node.output[0], node.op_type, case, verdict, alone if shows else None)
        left, found = _without(subject, left, place, case)
        if found is None:
            return
        verdict = judge.verdict(found)
    yield verdict


def _stops(verdict: Verdict) -> bool:
    return verdict.is_bug or verdict.outcome is Outcome.UNSUPPORTED


def _is_same(one: Verdict, other: Verdict) -> bool:
    return one.outcome is other.outcome and (one.symptom == other.symptom or one.title == other.title)


def _cut(subject: NodeSubject, keep: Sequence[int], case: Case) -> Case | None:
    found = subject.keep_nodes(frozenset(keep)) if keep else None
    return None if found is None else found.case(case)


def _culprit(subject: NodeSubject, left: Sequence[int], case: Case, judge: Judge, verdict: Verdict) -> int:
    """The last node of the shortest beginning of the program that fails so."""
    fine, fails = 0, len(left)
    while fails - fine > 1:
        middle = (fine + fails) // 2
        begun = _cut(subject, left[:middle], case)
        if begun is not None and _is_same(judge.verdict(begun), verdict):
            fails = middle
        else:
            fine = middle
    return left[fails - 1]


def _without(
    subject: NodeSubject, left: Sequence[int], place: int, case: Case
) -> tuple[tuple[int, ...], Case | None]:
    """What is left without a node; without all that reads it, if nothing can stand in for its value."""
    rest = tuple(each for each in left if each != place)
    found = _cut(subject, rest, case)
    if found is not None:
        return rest, found
    gone = set(subject.nodes[place].output)
    kept: list[int] = []
    for each in rest:
        if gone.isdisjoint(subject.reads[each]):
            kept.append(each)
        else:
            gone |= set(subject.nodes[each].output)
    return tuple(kept), _cut(subject, kept, case)
