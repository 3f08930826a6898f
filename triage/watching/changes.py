"""What became of a case from one release to another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from corpus.regression import Shown
from corpus.release import order_of
from oracles.naming.signature import Signature
from oracles.verdict import Outcome
from triage.clustering.similarity import MERGE, compare

_SILENT = (Outcome.UNSUPPORTED.value, Outcome.INVALID.value, Outcome.UNDECIDED.value)
"""What says nothing of a bug: the release cannot run the program."""


class Change(StrEnum):
    """The change of a case; `UNKNOWN` if it fails and no earlier release is known."""

    FIXED = "fixed"
    REGRESSED = "regressed"
    NEW = "new"
    FAILS = "fails as before"
    PASSES = "passes as before"
    UNKNOWN = "fails, nothing known before"
    SILENT = "cannot be run"


@dataclass(frozen=True, slots=True)
class Seen:
    """One release's result of a case; `signature` names the bug, None if only `shown` is known."""

    release: str
    shown: Shown
    symptom: str = ""
    title: str = ""
    signature: Signature | None = None

    @property
    def is_bug(self) -> bool:
        """Whether the case failed."""
        return Outcome(self.shown[0]).is_bug

    @property
    def is_silent(self) -> bool:
        """Whether the release could not run the case."""
        return self.shown[0] in _SILENT

    @property
    def words(self) -> str:
        """The outcome for a person: `pass`, or outcome, phase and kind."""
        return " ".join(filter(None, self.shown)) if self.is_bug else self.shown[0]


def before(known: Iterable[Seen], release: str) -> Seen | None:
    """Return the newest earlier release that says something of the case."""
    own = order_of(release)
    telling = [each for each in known if not each.is_silent and order_of(each.release) < own]
    return max(telling, key=lambda each: order_of(each.release), default=None)


def change(known: Sequence[Seen], now: Seen) -> Change:
    """Compare a case's result on a release with those of others."""
    if now.is_silent:
        return Change.SILENT
    last = before(known, now.release)
    if last is None:
        return Change.UNKNOWN if now.is_bug else Change.PASSES
    if not now.is_bug:
        return Change.FIXED if last.is_bug else Change.PASSES
    if not last.is_bug:
        return Change.REGRESSED
    earlier = [each for each in known if each.is_bug and order_of(each.release) < order_of(now.release)]
    return Change.FAILS if any(is_one(each, now) for each in earlier) else Change.NEW


def is_one(one: Seen, other: Seen) -> bool:
    """Whether two failures of one case are one bug: equal symptoms, or as near as one bug's signatures."""
    if one.symptom and one.symptom == other.symptom:
        return True
    if one.signature is None or other.signature is None:
        return one.shown == other.shown
    compared = compare(one.signature, other.signature)
    return not compared.obstacle and compared.distance <= MERGE
