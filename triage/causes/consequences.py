"""Is a reduced failure the consequence of another one: does it fail before its last node is reached?

A pass that loses a dim shows as whatever node stumbles over the lost dim: Tile, Concat, TopK. The experiment
cuts the reduced graph before the nodes at which the failure stands. If what is left fails by itself (or once
an Identity stands where they stood), and stops failing with the same passes disabled, it is the root: the
same bug, of which the whole is only a face. So is a program that only gives the weights, if it fails and the
whole does not with the same values as inputs: an importer reads them wrongly, whatever operator takes them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from corpus.case import Case
from oracles.judge import Judge
from oracles.verdict import Outcome, Verdict
from reducer.language import open_nodes
from reducer.move import read_hints
from reducer.pass_sets import failing_config
from reducer.search import Items
from reducer.subject.base import NodeSubject
from triage.language import language_of

VERSION = 4
"""Of the algorithm: what an older one decided is decided again."""

MOST_CHECKS = 3
"""Verdicts that one failure may cost."""

NOTHING_WRONG = "nothing before the failing node is wrong"


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a failure: the part of its graph that fails by itself, and its verdict.

    `passes` are the minimal ones of the whole, without which the part does not fail; empty if the failure
    needs no optimisation.
    """

    case: Case
    verdict: Verdict
    passes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of the experiment: the root, if any, the reason in words, and the checks spent."""

    root: Root | None
    why: str
    checks: int

    def evidence(self) -> dict[str, Any]:
        """The finding as it is kept beside the failure."""
        known: dict[str, Any] = {"version": VERSION, "checks": self.checks, "why": self.why}
        if self.root is not None:
            known |= {"root": self.root.case.case_id, "root_title": self.root.verdict.title}
        return known


def find_root(case: Case, verdict: Verdict, passes: tuple[str, ...], judge: Judge) -> Finding:
    """The root of a reduced failure, by at most `MOST_CHECKS` verdicts.

    A failure of one node is its own root unless its weights are. So is one whose part before the failing
    node is right.
    """
    opened = open_nodes(case, judge)
    if opened is None:
        return Finding(None, NOTHING_WRONG, 0)
    subject, _ = opened
    experiment = _Experiment(case, passes, judge, failing_config(verdict, judge) is not None)
    for keep in _parts(subject, verdict):
        part = subject.keep_nodes(keep)
        if part is None or not part.is_valid:
            continue
        for tried in _as_it_is_and_read_on(part.case(case), passes):
            root = experiment.fails(tried) if experiment.checks < MOST_CHECKS else None
            if root is not None:
                return Finding(root, _words(root, len(subject.nodes) - len(keep)), experiment.checks)
    root = experiment.fails_of_weights() if not passes else None
    if root is None:
        return Finding(None, NOTHING_WRONG, experiment.checks)
    why = f"its weights fail without its nodes ({root.verdict.title}), and it does not with them as inputs"
    return Finding(root, why, experiment.checks)


def _as_it_is_and_read_on(part: Case, passes: tuple[str, ...]) -> Iterator[Case]:
    """A part, then one whose results something reads: no pass removes what makes an output."""
    yield part
    if passes:
        yield from language_of(part.format).read_on(part)


def _parts(subject: NodeSubject, verdict: Verdict) -> Iterator[Items]:
    """Yield what leads to a wrong output alone; then what is left without the nodes at which it fails.

    Those are the nodes that the failure names, then the last ones.
    """
    made, every = subject.producer, frozenset(range(len(subject.nodes)))
    sources = {at: {made[name] for name in reads if name in made} for at, reads in enumerate(subject.reads)}
    users: dict[int, set[int]] = {at: set() for at in every}
    for reader, read in sources.items():
        for source in read:
            users[source].add(reader)
    output = verdict.wrong.output if verdict.wrong is not None else ""
    leading = _reached([made[output]] if output in made else [], sources)
    seen = {every}
    if leading and leading not in seen:
        seen.add(leading)
        yield leading
    last = frozenset(at for at in every if not users[at])
    for at in (_named(subject, verdict), last):
        rest = every - _reached(at, users)
        if at and rest and rest not in seen:
            seen.add(rest)
            yield rest


def _named(subject: NodeSubject, verdict: Verdict) -> frozenset[int]:
    """The nodes that the failure names; of several of one kind the last."""
    if verdict.outcome is Outcome.MISMATCH:
        return frozenset()
    hints = read_hints(verdict)
    named = [index for index, node in enumerate(subject.nodes) if node.name and node.name in hints.nodes]
    if not named:
        named = [index for index, node in enumerate(subject.nodes) if node.op_type in hints.operators]
    return frozenset(named[-1:])


def _reached(start: Iterable[int], steps: Mapping[int, Iterable[int]]) -> frozenset[int]:
    """The nodes and all to which steps from them lead."""
    found: set[int] = set()
    waiting = list(start)
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            waiting.extend(steps[index])
    return frozenset(found)


@dataclass
class _Experiment:
    """Verdicts on parts of one case, counted."""

    case: Case
    passes: tuple[str, ...]
    judge: Judge
    optimised: bool
    checks: int = 0

    def fails(self, part: Case) -> Root | None:
        """The part as a root where it fails, and only with the passes that the whole needs."""
        verdict = self._verdict(part)
        if not verdict.is_bug:
            return None
        is_unoptimised = verdict.wrong is not None and verdict.wrong.side == "un-optimised"
        passes = () if is_unoptimised else self.passes
        if passes and not self._is_cured(part, verdict):
            return None
        return Root(part, verdict, passes)

    def fails_of_weights(self) -> Root | None:
        """The program that only gives the weights as a root, if the whole does not fail with these given."""
        apart = language_of(self.case.format).weights_apart(self.case)
        if apart is None or self.checks + 2 > MOST_CHECKS:
            return None
        alone, given = apart
        verdict = self._verdict(alone)
        if not verdict.is_bug or self._verdict(given).is_bug:
            return None
        return Root(alone, verdict, ())

    def _is_cured(self, part: Case, verdict: Verdict) -> bool:
        """Whether the failure goes away with the passes disabled."""
        config = failing_config(verdict, self.judge)
        if config is None or self.judge.backend.passes is None:
            return False
        self.checks += 1
        without = self.judge.backend.passes.without(config, self.passes)
        return not self.judge.verdict(part, only=without).is_bug

    def _verdict(self, part: Case) -> Verdict:
        self.checks += 1
        return self.judge.verdict(part)


def _words(root: Root, cut: int) -> str:
    nodes = "its last node" if cut == 1 else f"its last {cut} nodes"
    by = f", and not without {' + '.join(root.passes)}" if root.passes else ""
    return f"it fails without {nodes} as well ({root.verdict.title}){by}"
