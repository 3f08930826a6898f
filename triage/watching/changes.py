"""What became of a case from one release to another."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from corpus.case import CASE_FILE, Case
from corpus.errors import UserError
from corpus.load import must_be_known
from corpus.regression import EXPECTED_FILE, Regression, Shown, load_regression, load_regressions
from corpus.release import order_of
from oracles.backends import find_backend
from oracles.naming.signature import Signature
from oracles.sandbox.processes import SandboxError
from oracles.sandbox.sandbox import Sandbox
from oracles.verdict import Outcome
from triage.bisection.environments import EnvironmentCache, cache_folder
from triage.bisection.package_index import newest_releases, own_interpreter
from triage.cases.sources import open_to_run
from triage.clustering.similarity import MERGE, compare
from triage.console.options import CaseOptions
from triage.console.output import say
from triage.console.status import Progress
from triage.store.clusters import clusters, signatures_of
from triage.store.database import Store
from triage.store.failures import get_failure, verdict_of
from triage.store.jobs.campaigns import WatchedRow, components_of, watched_case
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


@dataclass(frozen=True, slots=True)
class Place:
    """A release and the Python that has it; empty for crux's own."""

    release: str
    python: str = ""


@dataclass(frozen=True)
class Sources:
    """The sources of releases: Pythons that have one, a folder of wheels, another index than pip's own."""

    package: str
    backend: str
    pythons: tuple[Path, ...] = ()
    wheels: Path | None = None
    index: str = ""
    nightly: bool = False
    cache: Path = field(default_factory=cache_folder)

    @cached_property
    def given(self) -> tuple[Place, ...]:
        """The Pythons that were named, each with the release that it has; raises `UserError`."""
        found = tuple(Place(self._release_of(python), str(python)) for python in self.pythons)
        seen: dict[str, str] = {}
        for each in found:
            if each.release in seen:
                both = f"{seen[each.release]} and {each.python}"
                raise UserError(
                    f"--python: {both} both have {self.package} {each.release}: nothing to compare"
                )
            seen[each.release] = each.python
        return found

    @cached_property
    def offered(self) -> list[str]:
        """The releases that can be looked at, oldest first; raises `UserError` where nobody can be asked."""
        if self.given:
            return sorted((each.release for each in self.given), key=order_of)
        if self.wheels is not None:
            return self._in_folder(self.wheels)
        return newest_releases(self.package, self._words, nightly=self.nightly)

    @contextmanager
    def open(self, release: str, shown: Progress) -> Iterator[Place]:
        """A place for a release, held while the block runs; raises `Unavailable`."""
        named = next((each for each in self.given if each.release == release), None)
        if named or release == _installed(self.package):
            yield named or Place(release)
            return
        made = EnvironmentCache(
            self.cache / self._folder, self.package, self._works, say=shown.note, sources=self._words
        )
        with made.environment(release, own_interpreter()) as environment:
            yield Place(release, str(environment.python))

    @property
    def _words(self) -> tuple[str, ...]:
        """Return pip's options for where to look."""
        links = ("--find-links", str(self.wheels.resolve())) if self.wheels else ()
        return (*links, *(("--index-url", self.index) if self.index else ()))

    @property
    def _folder(self) -> str:
        """Environments from other sources are kept apart: a local build may have a public one's number."""
        if not self._words:
            return "."
        built = [f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in self._wheels()]
        return hashlib.sha256("\n".join([*self._words, *built]).encode()).hexdigest()[:12]

    def _wheels(self) -> list[Path]:
        return sorted(self.wheels.glob("*.whl")) if self.wheels else []

    def _in_folder(self, folder: Path) -> list[str]:
        """The releases of the package whose wheels lie in a folder."""
        found = [path.name.split("-")[1] for path in self._wheels() if _is_of(path, self.package)]
        if not found:
            raise UserError(f"--wheels {folder}: holds no wheel of {self.package}")
        return sorted(dict.fromkeys(each.partition("+")[0] for each in found), key=order_of)

    def _release_of(self, python: Path) -> str:
        with Sandbox(self.backend, python=str(python)) as sandbox:
            try:
                return str(sandbox.facts["version"])
            except (UserError, SandboxError) as error:
                why = " ".join(str(error).split())[-200:]
                raise UserError(f"--python {python}: cannot run {self.package}: {why}") from None

    def _works(self, python: Path) -> tuple[str, str]:
        """What is wrong with an environment, by the worker under it, and its numpy."""
        with Sandbox(self.backend, python=str(python)) as sandbox:
            try:
                return "", str(sandbox.facts["numpy"])
            except (UserError, SandboxError) as error:
                return " ".join(str(error).split())[-200:], ""


def chosen(offered: Sequence[str], wanted: Sequence[str], watched: Sequence[str], package: str) -> list[str]:
    """The releases to look at, oldest first: those asked for, else all that are newer than what was watched.

    Where nothing was watched yet, that is the newest one. Raises `UserError` for one that nobody offers.
    """
    if wanted:
        for each in wanted:
            if each not in offered:
                near = ", ".join(offered[-3:])
                raise UserError(
                    f"--release {each}: not a release of {package} that can run here; newest: {near}"
                )
        return sorted(dict.fromkeys(wanted), key=order_of)
    if not watched:
        return list(offered[-1:])
    last = max(order_of(each) for each in watched)
    return [each for each in offered if order_of(each) > last]


def _installed(package: str) -> str:
    """The release in crux's own environment; empty where there is none."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return ""


def _is_of(wheel: Path, package: str) -> bool:
    return _plain(wheel.name.split("-")[0]) == _plain(package)


def _plain(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
