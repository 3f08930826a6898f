"""What became of a case from one release to another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from corpus.case import CASE_FILE, Case
from corpus.errors import UserError
from corpus.load import EXPECTED_FILE, Regression, Shown, load_regression, load_regressions, must_be_known
from corpus.release import order_of
from oracles.backends import find_backend
from oracles.naming import Signature
from oracles.verdict import Outcome
from triage.cases.sources import open_to_run
from triage.clustering.similarity import MERGE, compare
from triage.console.options import CaseOptions
from triage.console.output import say
from triage.store.campaigns import WatchedRow, components_of, watched_case
from triage.store.clusters import clusters, signatures_of
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


def runs(backend: str, package: str) -> bool:
    """Whether a backend runs a package or another build of it, such as `onnxruntime-gpu`."""
    own = find_backend(backend).package
    return package == own or package.startswith(f"{own}-")
