"""What a new release of a package changes: known cases on it, beside what they showed before.

In come a package, its releases, and cases: the regression corpus, folders, the bugs of a database. Out comes
for each release what is fixed, regressed and new. Two failures of a case are one where `replay` takes them
for one: equal in outcome, phase and kind.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from corpus.case import CASE_FILE, Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.load import EXPECTED_FILE, Regression, Shown, load_regression, load_regressions, must_be_known
from corpus.target import Target, order_of
from oracles.sandbox.processes import SandboxError
from oracles.verdict import Outcome
from triage.bisection.bisection import runs, target_for
from triage.bisection.environments import Place, Sources, Unavailable
from triage.bisection.package_index import newest_releases
from triage.cases.replaying import shown_by
from triage.cases.sources import Judges, judge_often, open_to_run
from triage.causes.explaining import outcome_and_kind
from triage.console.options import CaseOptions
from triage.console.output import say
from triage.console.status import Progress
from triage.store.artifacts import note_check, results_of, watched_releases
from triage.store.clusters import clusters
from triage.store.database import Store
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
    """One release's result of a case."""

    release: str
    shown: Shown
    title: str = ""

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


def kept(release: str, outcome: str, phase: str, symptom: str, title: str) -> Seen:
    """A result as the database keeps it: the kind stands in the symptom."""
    kind = "" if outcome == Outcome.CRASH.value else outcome_and_kind(symptom)[1]
    return Seen(release, (outcome, phase, kind), title)


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
    return Change.FAILS if any(each.shown == now.shown for each in earlier) else Change.NEW


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
    """All cases of a package, each once."""
    found: dict[str, Subject] = {}
    shipped = (_of_regression(each) for each in load_regressions() if each.package == package)
    for each in (
        *(shipped if corpus else ()),
        *(one for word in words for one in _named(word, options)),
        *_of_database(store, package, options),
    ):
        found.setdefault(each.case.case_id, each)
    return list(found.values())


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
        phase = str(verdict_of(store, failure.id)["phase"])
        seen = kept(failure.release, failure.outcome, phase, failure.symptom, failure.title)
        case = replace(case, target=case.target.without_setting("python"))
        yield Subject(cluster.name, cluster.title, case, (seen,) if failure.release else ())


SURE = 3
"""How often a case that failed before is judged before it counts as fixed: some failures come and go."""
TOLD = (Change.REGRESSED, Change.NEW, Change.FIXED, Change.UNKNOWN)
"""What is listed case by case, the worst first."""


@dataclass(frozen=True)
class Watch:
    """The task of a watch: cases of a package, and the releases that are named, else all that are new.

    `hunter` hunts on a target that is of a release, and gives the document of what that brought.
    """

    store: Store
    options: CaseOptions
    sources: Sources
    subjects: Sequence[Subject]
    shown: Progress
    wanted: tuple[str, ...] = ()
    nightly: bool = False
    hunter: Callable[[Target, str], dict[str, Any]] | None = None

    @property
    def package(self) -> str:
        """The package that is watched."""
        return self.sources.package

    @cached_property
    def offered(self) -> list[str]:
        """The releases that the index has, oldest first; raises `UserError` where it cannot be asked."""
        return newest_releases(self.package, nightly=self.nightly)

    def releases(self) -> list[str]:
        """Those to look at, oldest first: what is newer than what was watched; else the newest one."""
        if self.wanted:
            return sorted(dict.fromkeys(self.wanted), key=order_of)
        watched = [order_of(each) for each in watched_releases(self.store, self.package)]
        if not watched:
            return self.offered[-1:]
        return [each for each in self.offered if order_of(each) > max(watched)]

    def run(self) -> Iterator[dict[str, Any]]:
        """Yield what each release changes; raises `UserError` where none of them can be installed."""
        releases, why, done = self.releases(), "", 0
        subjects = [self._remembered(each) for each in self.subjects]
        if releases:
            subjects = self._with_baseline(subjects, releases[0])
        for release in releases:
            try:
                with self.sources.open(release, self.shown) as place:
                    subjects, document = self._look(subjects, place)
                    if self.hunter is not None:
                        plain = target_for(self.package, Target(self.sources.backend))
                        document["hunt"] = self.hunter(place.target_of(plain), place.release)
            except Unavailable as error:
                why = f"{self.package} {release} cannot be installed here: {error}"
                self.shown.note(why)
                continue
            yield document
            done += 1
        if releases and not done:
            raise UserError(why)

    def _remembered(self, subject: Subject) -> Subject:
        """The subject with what the database saw, which counts more than what a file says of a release."""
        rows = results_of(self.store, subject.case.case_id, str(self._target(subject)))
        seen = {row["release"]: kept(**row) for row in rows}
        told = [each for each in subject.known if each.release not in seen]
        return replace(subject, known=(*told, *seen.values()))

    def _target(self, subject: Subject) -> Target:
        """The target of a case, whichever release it has."""
        own = subject.case.target or Target(find_format(subject.case.format).target)
        return self.options.target_of(target_for(self.package, own))

    def _baseline(self, release: str) -> str:
        """The release to compare with where nothing is known of a case; empty where there is none."""
        try:
            older = [each for each in self.offered if order_of(each) < order_of(release)]
        except UserError as error:
            self.shown.note(str(error))
            return ""
        return next((each for each in reversed(older) if "dev" not in each), "")

    def _with_baseline(self, subjects: list[Subject], release: str) -> list[Subject]:
        """Run cases of unknown past on the earlier release, so that there is something to compare."""
        lacking = [each for each in subjects if before(each.known, release) is None]
        baseline = self._baseline(release) if lacking else ""
        if not baseline:
            return subjects
        self.shown.note(f"{len(lacking)} cases are run on {baseline} first, for comparison")
        try:
            with self.sources.open(baseline, self.shown) as place:
                found, _ = self._look(lacking, place)
        except Unavailable as error:
            self.shown.note(f"{self.package} {baseline} cannot be installed here: {error}")
            return subjects
        told = {each.case.case_id: each for each in found}
        return [told.get(each.case.case_id, each) for each in subjects]

    def _look(self, subjects: Sequence[Subject], place: Place) -> tuple[list[Subject], dict[str, Any]]:
        """Every case on one release: the cases with what was seen, and the document of the release."""
        changes: list[tuple[Subject, Change, Seen]] = []
        with Judges(self.options) as judges:
            for at, each in enumerate(subjects):
                self.shown.status(f"{self.package} {place.release}: {at} of {len(subjects)} cases")
                seen = self._see(each, place, judges)
                changes.append((each, change(each.known, seen), seen))
        self.store.log("watched", self.package, release=place.release)
        told = [replace(each, known=(*each.known, seen)) for each, _, seen in changes]
        return told, self._document(place, changes)

    def _see(self, subject: Subject, place: Place, judges: Judges) -> Seen:
        plain = self._target(subject)
        target = place.target_of(plain)
        judge = judges.of(target, subject.case.format)
        case = replace(subject.case, target=target)
        last = before(subject.known, place.release)
        try:
            verdict, _ = judge_often(judge, case, 1)
            if not verdict.is_bug and last is not None and last.is_bug:
                verdict, _ = judge_often(judge, case, SURE - 1)
        except SandboxError as error:
            return Seen(place.release, (Outcome.UNDECIDED.value, "", ""), f"cannot be run: {error}")
        facts = verdict.texts
        note_check(self.store, subject.case.case_id, str(plain), place.release, **facts)
        return Seen(place.release, shown_by(verdict), verdict.title)

    def _document(self, place: Place, changes: Sequence[tuple[Subject, Change, Seen]]) -> dict[str, Any]:
        counts = Counter(became for _, became, _ in changes)
        return {
            "package": self.package,
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
    }
