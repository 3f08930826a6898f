"""Watching a package: every case on each new release, beside the release before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.release import order_of
from corpus.target import Target
from oracles.naming import signature
from oracles.sandbox.processes import SandboxError
from oracles.verdict import Outcome
from triage.bisection.bisection import target_for
from triage.bisection.environments import Unavailable
from triage.bisection.places import Place, Sources, chosen
from triage.cases.judging import Judges, judge_often
from triage.cases.replaying import shown_by
from triage.console.options import CaseOptions
from triage.console.status import Progress
from triage.store.campaigns import WatchedRow, keep_watch, watched_releases
from triage.store.database import Store, dump
from triage.watching.changes import Change, Seen, Subject, before, change

SURE = 3
"""How often a case that failed before is judged before it counts as fixed: some failures come and go."""
TOLD = (Change.REGRESSED, Change.NEW, Change.FIXED, Change.UNKNOWN)
"""What is listed case by case, the worst first."""


@dataclass(frozen=True)
class Watch:
    """The task of a watch: cases of a package, on which releases, compared with which."""

    store: Store
    options: CaseOptions
    sources: Sources
    subjects: Sequence[Subject]
    shown: Progress
    wanted: tuple[str, ...] = ()
    since: str = ""

    def releases(self) -> list[str]:
        """The releases to look at, oldest first; what was watched already only where it is named."""
        if not self.sources.given:
            watched = watched_releases(self.store, self.sources.package)
            return chosen(self.sources.offered, self.wanted, watched, self.sources.package)
        return self.sources.offered[1:] or self.sources.offered

    def run(self) -> Iterator[tuple[Place, dict[str, Any]]]:
        """Each release with what it changes; it can be run in its place until the next one is asked for.

        Raises `UserError` where none of the releases can be installed.
        """
        releases = self.releases()
        subjects, why = list(self.subjects), ""
        done = 0
        if releases:
            subjects = self._with_baseline(subjects, releases[0])
        for release in releases:
            try:
                with self.sources.open(release, self.shown) as place:
                    subjects, document = self._look(subjects, place)
                    yield place, document
                    done += 1
            except Unavailable as error:
                why = f"{self.sources.package} {release} cannot be installed here: {error}"
                self.shown.note(why)
        if releases and not done:
            raise UserError(why)

    def baseline(self, release: str) -> str:
        """The release to compare with where nothing is known of a case; empty where there is none."""
        if self.since:
            return self.since
        own = order_of(release)
        older = [each for each in self.sources.offered if order_of(each) < own and "dev" not in each]
        return older[-1] if older else ""

    def target_at(self, place: Place, case: Case | None = None) -> Target:
        """The target of a case in a place; without one the target of new programs."""
        own = case and (case.target or Target(find_format(case.format).target))
        target = self.options.target_of(target_for(self.sources.package, own or Target(self.sources.backend)))
        return target.with_setting("python", place.python) if place.python else target

    def _with_baseline(self, subjects: list[Subject], release: str) -> list[Subject]:
        """Run cases of unknown past on the earlier release, so that there is something to compare."""
        lacking = [each for each in subjects if self.since or before(each.known, release) is None]
        baseline = self.baseline(release)
        if not lacking or not baseline:
            return subjects
        self.shown.note(f"{len(lacking)} cases are run on {baseline} first, for comparison")
        try:
            with self.sources.open(baseline, self.shown) as place:
                found, _ = self._look(lacking, place)
        except Unavailable as error:
            self.shown.note(f"{self.sources.package} {baseline} cannot be installed here: {error}")
            return subjects
        told = {each.case.case_id: each for each in found}
        return [told.get(each.case.case_id, each) for each in subjects]

    def _look(self, subjects: Sequence[Subject], place: Place) -> tuple[list[Subject], dict[str, Any]]:
        """Every case on one release: the cases with what was seen, and the document of the release."""
        told, rows, changes = [], [], []
        with Judges(self.options) as judges:
            for at, each in enumerate(subjects):
                self.shown.status(f"{self.sources.package} {place.release}: {at} of {len(subjects)} cases")
                seen = self._see(each, place, judges)
                became = change(each.known, seen)
                changes.append((each, became, seen))
                told.append(replace(each, known=(*each.known, seen)))
                rows.append(_row(each, became, seen))
        counts = Counter(became.value for _, became, _ in changes)
        keep_watch(self.store, self.sources.package, place.release, counts, rows)
        return told, self._document(place, changes)

    def _see(self, subject: Subject, place: Place, judges: Judges) -> Seen:
        target = self.target_at(place, subject.case)
        judge = judges.of(target, subject.case.format)
        case = replace(subject.case, target=target)
        last = before(subject.known, place.release)
        try:
            verdict, _ = judge_often(judge, case, 1)
            if not verdict.is_bug and last is not None and last.is_bug:
                verdict, _ = judge_often(judge, case, SURE - 1)
        except SandboxError as error:
            return Seen(place.release, (Outcome.UNDECIDED.value, "", ""), title=f"cannot be run: {error}")
        name = signature(verdict, case.measure, case) if verdict.is_bug else None
        return Seen(place.release, shown_by(verdict), str(verdict.symptom or ""), verdict.title, name)

    def _document(self, place: Place, changes: Sequence[tuple[Subject, Change, Seen]]) -> dict[str, Any]:
        counts = Counter(became for _, became, _ in changes)
        return {
            "package": self.sources.package,
            "release": place.release,
            "cases": len(changes),
            **{_key(each): counts[each] for each in Change},
            "changes": [_told(*each) for wanted in TOLD for each in changes if each[1] is wanted],
        }


def _told(subject: Subject, became: Change, seen: Seen) -> dict[str, Any]:
    last = before(subject.known, seen.release)
    return {
        "case": subject.name,
        "title": seen.title if seen.is_bug else subject.title or (last.title if last else ""),
        "change": became.value,
        "since": last.release if last else "",
        "before": last.words if last else "",
        "now": seen.words,
        "symptom": seen.symptom,
    }


def _key(each: Change) -> str:
    return each.name.lower()


def _row(subject: Subject, became: Change, seen: Seen) -> WatchedRow:
    name = seen.signature
    return WatchedRow(
        subject.name,
        subject.case.case_id,
        became.value,
        *seen.shown,
        seen.symptom,
        seen.title,
        name.version if name else 0,
        dump(name.components if name else ()),
    )
