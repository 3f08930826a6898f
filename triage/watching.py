"""What a new release of a package changes: known cases on it, beside what they showed before.

In come a package, its releases or Pythons, and cases: the regression corpus, folders, the bugs of a database.
Out comes for each release what is fixed, regressed and new.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from corpus.case import CASE_FILE, Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.load import EXPECTED_FILE, Regression, Shown, load_regression, load_regressions, must_be_known
from corpus.target import Target, order_of
from oracles.naming import Signature, signature
from oracles.sandbox.processes import SandboxError
from oracles.verdict import Outcome
from triage.bisection.bisection import runs, target_for
from triage.bisection.environments import Place, Sources, Unavailable, chosen
from triage.cases.replaying import shown_by
from triage.cases.sources import Judges, judge_often, open_to_run
from triage.clustering.similarity import MERGE, compare
from triage.console.options import CaseOptions
from triage.console.output import say
from triage.console.status import Progress
from triage.store.campaigns import WatchedRow, components_of, keep_watch, watched_case, watched_releases
from triage.store.clusters import clusters, signatures_of
from triage.store.database import Store, dump
from triage.store.failures import get_failure, verdict_of
from triage.store.names import representative

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
    """The newest earlier release that says something of the case."""
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


@dataclass(frozen=True)
class Subject:
    """A case under the name that a person knows it by, and what releases have shown of it."""

    name: str
    title: str
    case: Case
    known: tuple[Seen, ...] = ()


def subjects(
    package: str, words: Iterable[str], options: CaseOptions, store: Store, *, corpus: bool = True
) -> list[Subject]:
    """All cases of a package, with what the database remembers of them; each case once."""
    found: dict[str, Subject] = {}
    shipped = (_of_regression(each) for each in load_regressions() if each.package == package)
    for each in (
        *(shipped if corpus else ()),
        *(one for word in words for one in _named(word, options)),
        *_of_database(store, package, options),
    ):
        found.setdefault(each.case.case_id, each)
    return [_remembered(store, package, each) for each in found.values()]


def _named(word: str, options: CaseOptions) -> Iterator[Subject]:
    """Yield a case, or every case folder and model directly below a folder that is none."""
    path = Path(word)
    if path.is_dir() and not (path / CASE_FILE).is_file() and not (path / "model.onnx").is_file():
        inner = sorted(one for one in path.iterdir() if (one / CASE_FILE).is_file() or one.suffix == ".onnx")
        if not inner:
            raise UserError(f"{path}: holds no case folder and no .onnx file")
        for one in inner:
            yield from _named(str(one), options)
    elif (path / EXPECTED_FILE).is_file():
        yield _of_regression(load_regression(path))
    else:
        yield Subject(word, "", open_to_run(word, options))


def _of_regression(regression: Regression) -> Subject:
    seen = (Seen(release, shown, title=regression.title) for release, shown in regression.shown.items())
    return Subject(regression.name, regression.title, regression.case, tuple(seen))


def _of_database(store: Store, package: str, options: CaseOptions) -> Iterator[Subject]:
    """Yield the smallest case of each bug that was seen on a target of the package."""
    for cluster in clusters(store):
        failure = get_failure(store, representative(store, cluster.id))
        case = store.load_case(failure.best_case)
        if case.target is None or not runs(case.target.backend, package):
            continue
        try:
            must_be_known(case, cluster.name, trust=options.trust)
        except UserError as error:
            say(f"{cluster.name} is left out: {error}")
            continue
        facts, signatures = verdict_of(store, failure.id), signatures_of(store, cluster.id)
        shown = (failure.outcome, str(facts["phase"]), "")
        name = signatures[-1].signature if signatures else None
        known = (
            Seen(failure.release, shown, failure.symptom, failure.title, name) if failure.release else None
        )
        case = replace(case, target=case.target.without_setting("python"))
        yield Subject(cluster.name, cluster.title, case, (known,) if known else ())


def _remembered(store: Store, package: str, subject: Subject) -> Subject:
    """The subject with what earlier watches saw, which counts more than what a file says of a release."""
    rows = dict(watched_case(store, package, subject.case.case_id))
    told = [each for each in subject.known if each.release not in rows]
    return replace(subject, known=(*told, *(seen_in(release, row) for release, row in rows.items())))


def seen_in(release: str, row: WatchedRow) -> Seen:
    """Read a release's result from its row."""
    components = components_of(row.components)
    name = Signature(row.version, components, "") if components else None
    return Seen(release, (row.outcome, row.phase, row.kind), row.symptom, row.title, name)


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
            **{each.name.lower(): counts[each] for each in Change},
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
