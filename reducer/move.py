"""What a move is: a search that proposes smaller subjects and learns which of them still fail."""

import math
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Generic, TypeAlias, TypeVar

from oracles.verdict import Outcome, Verdict
from reducer.search import Items, SetSearch
from reducer.subject.base import Subject
from reducer.subject.order import size

S = TypeVar("S", bound=Subject)

Proposal: TypeAlias = Callable[[], Subject | None]
"""Builds a candidate when it is needed; None means that there is no such candidate."""

Search: TypeAlias = Generator[Proposal, bool, Subject]
"""Yields proposals, is sent whether each is interesting, returns the smallest interesting subject."""

SearchOf: TypeAlias = Generator[Callable[[], S | None], bool, S]
"""A search whose proposals and result are of the subject's own kind, so that a move can go on from it."""


@dataclass(frozen=True)
class Hints:
    """The evidence that guides the moves: operators and nodes that the failure names, and wrong values.

    `stopped_at` is the result of the node at which the framework's own stack says that it stopped;
    `dims` are those that the framework knew of results that lead there, None of one without.
    `divergence` is what the optimiser made anew where the optimised run first differs. `witness` belongs to
    the last interesting candidate: pairs of a dim and a position along it.
    `operands` are those of the original's nodes, each by its first result. `looks` bounds what a look at
    candidates that seldom fail asks for. `accepts` says whether a candidate would be asked for at all.
    `is_thorough` lifts the bounds of searches.
    """

    operators: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    stopped_at: str = ""
    dims: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    divergence: tuple[str, ...] = ()
    witness: tuple[tuple[int, int], ...] = ()
    operands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    looks: int = 3
    accepts: Callable[[Subject], bool] = lambda candidate: candidate.is_valid
    is_thorough: bool = False


@dataclass(frozen=True)
class Move(Generic[S]):
    """A named way to make a subject smaller. `order` is its place in a round.

    `search` must be a pure function of the subject and the answers it is sent: it is replayed from the
    journal and run ahead by speculation. `reshapes` tells that recorded values are stale after it,
    `renames` that its candidates may differ in names or annotations alone, to which the gate is blind
    otherwise. One that is `late` seldom finds anything: it is not asked before a round of the others has
    changed nothing. One that is asked `once` prepares the ground: what it asks later ones ask again, so it
    has no place but in the first round. A move that `hides` only runs where the original is to be hidden;
    what it leaves need not be smaller. Nor need what a `plain` one leaves, which runs once after the others.
    `chance` is how often its first candidate still fails, roughly: it decides what idle workers guess, and
    nothing else. It works on subjects of the class `on`, and of those below it.
    """

    name: str
    order: int
    search: Callable[[S, Hints], Search]
    on: type[S] = field(kw_only=True)
    reshapes: bool = field(default=False, kw_only=True)
    renames: bool = field(default=False, kw_only=True)
    late: bool = field(default=False, kw_only=True)
    once: bool = field(default=False, kw_only=True)
    settles: bool = field(default=False, kw_only=True)
    hides: bool = field(default=False, kw_only=True)
    plain: bool = field(default=False, kw_only=True)
    chance: float = field(default=0.8, kw_only=True)


def over_sets(subject: S, search: SetSearch, build: Callable[[Items], S | None]) -> SearchOf[S]:
    """Turn a search over sets of items into one over subjects."""
    best = subject
    try:
        keep = next(search)
        while True:
            proposal = cache(partial(build, keep))
            answer = yield proposal
            if answer:
                best = proposal() or best
            keep = search.send(answer)
    except StopIteration:
        return best


def one_by_one(subject: S, proposals: Sequence[Callable[[S], S | None]]) -> SearchOf[S]:
    """Try each change on the best so far; keep those that stay interesting."""
    best = subject
    for change in proposals:
        best = yield from first_of(best, [partial(change, best)])
    return best


def smaller_by(subject: S, changes: Iterable[Callable[[S], S | None]]) -> SearchOf[S]:
    """Search like `one_by_one`, but skip changes that do not make the subject smaller."""
    best = subject
    for change in changes:
        best = yield from first_smaller(best, [partial(change, best)])
    return best


def first_of(subject: S, proposals: Iterable[Callable[[], S | None]]) -> SearchOf[S]:
    """The first candidate that is interesting; the subject itself where none is."""
    for proposal in map(cache, proposals):
        if (yield proposal):
            return proposal() or subject
    return subject


def first_valid(subject: S, proposals: Iterable[Callable[[], S | None]]) -> SearchOf[S]:
    """Search like `first_of`, but skip what is no candidate."""
    found = map(cache, proposals)
    return first_of(subject, (each for each in found if each() is not None))


def first_smaller(
    subject: S, proposals: Iterable[Callable[[], S | None]], most: float = math.inf
) -> SearchOf[S]:
    """The first interesting candidate of those that are smaller, of which at most so many are asked for."""
    asked = 0
    for proposal in map(cache, proposals):
        found = proposal()
        if found is None or not size(found) < size(subject):
            continue
        if asked == most:
            break
        asked += 1
        if (yield proposal):
            return found
    return subject


def all_at_once(search: Callable[[S, Hints], Search]) -> Callable[[S, Hints], Search]:
    """The search, after one question: whether all that it would propose can be had together.

    Not where a value is what is wrong, which needs more of the program as it is.
    """

    def searched(subject: S, hints: Hints) -> Search:
        found, steps = (subject, 0) if hints.witness else _granted(search(subject, hints), hints)
        if steps > 1 and size(found) < size(subject) and (yield lambda: found):
            return found
        return (yield from search(subject, hints))

    return searched


def _granted(search: Search, hints: Hints) -> tuple[Subject, int]:
    """What a search ends with if every candidate fails that would be asked for, and how many there were."""
    steps = 0
    try:
        proposal = next(search)
        while True:
            candidate = proposal()
            is_valid = candidate is not None and hints.accepts(candidate)
            steps += is_valid
            proposal = search.send(is_valid)
    except StopIteration as end:
        found: Subject = end.value
        return found, steps


_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_CAMEL = re.compile(r"[A-Z][a-z0-9]*|[a-z0-9]+")
_QUOTED = re.compile(
    r"Name:\s*'([^']*)'|node \(([^()]*)\)|Node \(([^()]*)\)|'([^'\s]+)'|node[: ]+\"([^\"]+)\""
)


def read_hints(verdict: Verdict | None, culprit: str = "") -> Hints:
    """Read the operators and nodes that a failing run names, and the node at which it stopped.

    If a result contradicts its declaration, the verdict's own words name the node.
    """
    text = "\n".join(run.message for run in (verdict.runs if verdict else ()) if not run.is_ok)
    if (
        verdict is not None
        and verdict.outcome is Outcome.MISMATCH
        and verdict.symptom
        and verdict.symptom.side
    ):
        text, culprit = verdict.title, ""
    quoted = [next(filter(None, groups), "") for groups in _QUOTED.findall(text)]
    stopped = next((run for run in (verdict.runs if verdict else ()) if run.at), None)
    stopped_at, dims = (stopped.at, stopped.dims) if stopped is not None else ("", {})
    found = (stopped_at,) if stopped_at else (culprit, *quoted)
    names = tuple(dict.fromkeys(name for name in found if name))
    operators = tuple(dict.fromkeys(_words(text)))
    return Hints(operators=operators, nodes=names, stopped_at=stopped_at, dims=dims)


def needed_operator(verdict: Verdict | None, subject: Subject) -> str:
    """The operator at which the framework stopped, if the symptom names it: it must stay.

    Empty where the framework's stack names no node.
    """
    at = next((run.at for run in (verdict.runs if verdict else ()) if run.at), "")
    if verdict is None or verdict.symptom is None:
        return ""
    operator = subject.operator_of(at)
    return operator if verdict.symptom.message.startswith(f"{operator}: ") else ""


def _words(text: str) -> list[str]:
    """Words of the text, and the runs of words inside CamelCase names: FuseReluClip names Relu and Clip."""
    words: list[str] = []
    for word in _WORD.findall(text):
        parts = _CAMEL.findall(word)
        for start in range(len(parts)):
            for end in range(start + 1, min(start + 4, len(parts)) + 1):
                words.append("".join(parts[start:end]))
        words.append(word)
    return words
