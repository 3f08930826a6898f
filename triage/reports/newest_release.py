"""What the newest release shows of a case: looked up once a day, installed once for a command."""

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Self

from corpus.case import Case
from corpus.target import Target, order_of
from oracles.judge import Judge
from oracles.sandbox.processes import SandboxError
from oracles.verdict import Outcome, Verdict
from triage.bisection.bisection import GOOD, SymptomClasses, release_result
from triage.bisection.environments import Place, Sources, Unavailable
from triage.bisection.package_index import Newest, newest_of
from triage.cases.sources import Judges
from triage.console.foot import doing
from triage.console.options import CaseOptions
from triage.console.status import Progress
from triage.projects import project_of, project_of_package
from triage.store.artifacts import note_newest
from triage.store.database import Store
from triage.store.failures import targets_of

TIMES, TIMES_IF_UNSTEADY = 3, 12
"""Runs after which a failure is gone from a release; so many if it does not show in each run here."""
HUGE = "its packages take gigabytes, so it is not installed by itself; name a Python that has it"


@dataclass(frozen=True, slots=True)
class Tried:
    """One release's result: whether the bug shows there; None with the reason in `words` if that is open."""

    release: str
    shows: bool | None
    words: str = ""


@dataclass(frozen=True, slots=True)
class OnNewest:
    """The newest release of a package, and what it and a newer pre-release show of a case."""

    package: str
    newest: Newest
    tried: tuple[Tried, ...] = ()

    @property
    def _mended(self) -> Tried | None:
        """The first of these releases on which the bug is gone."""
        return next((each for each in self.tried if each.shows is False), None)

    @property
    def fixed(self) -> str:
        """The first of these releases on which the bug is gone; empty if it shows on each."""
        return self._mended.release if self._mended else ""

    @property
    def shows(self) -> bool:
        """Whether the newest release was looked up, and shows the bug."""
        return bool(self.newest.release) and not self.fixed and self.tried[0].shows is True

    @property
    def words(self) -> str:
        """The result for a checklist."""
        if not self.newest.all:
            return f"the newest release of {self.package} was not looked up ({self.newest.why})"
        if mended := self._mended:
            return f"{self.package} {mended.release} {mended.words or 'does not show it'}: it is fixed there"
        if not self.shows:
            return f"{self.package} {self.tried[0].release}, the newest release, {self.tried[0].words}"
        early = [f" and the pre-release {each.release}" for each in self.tried[1:] if each.shows]
        return (
            f"{self.package} {self.newest.release}, the newest release of the index,{''.join(early)} shows it"
        )


class NewestReleases:
    """The newest releases as places to judge cases; a context manager that keeps their environments."""

    def __init__(self, options: CaseOptions, shown: Progress) -> None:
        self._options, self._shown = options, shown
        self._stack = ExitStack()
        self._judges = self._stack.enter_context(Judges(options))
        self._times = TIMES
        self._pythons: dict[tuple[str, str], str | Unavailable] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def look(self, case: Case, verdict: Verdict, judge: Judge, *, is_steady: bool = True) -> OnNewest:
        """Judge a case, which shows a bug here, on the newest release and on a newer pre-release."""
        self._times = TIMES if is_steady else TIMES_IF_UNSTEADY
        package = judge.backend.package
        newest = newest_of(package, offline=self._options.offline)
        return OnNewest(
            package, newest, tuple(self._try(release, case, verdict, judge) for release in newest.all)
        )

    def _try(self, release: str, case: Case, verdict: Verdict, judge: Judge) -> Tried:
        if order_of(release) <= order_of(judge.release):
            return Tried(release, True)
        python = self._python(judge.backend.package, judge.target.backend, release)
        if isinstance(python, Unavailable):
            return Tried(release, None, f"could not be tried: {python}")
        try:
            return self._judge(release, python, case, verdict, judge.target)
        except SandboxError as error:
            return Tried(release, None, f"could not be tried: it cannot be run ({error})")

    def _python(self, package: str, backend: str, release: str) -> str | Unavailable:
        """The interpreter with a release, installed at the first use; the reason where there is none."""
        key = package, release
        if key not in self._pythons:
            try:
                place = self._stack.enter_context(open_release(package, backend, release, self._shown))
                self._pythons[key] = place.python
            except Unavailable as error:
                self._shown.note(f"{package} {release}: {error}")
                self._pythons[key] = error
        return self._pythons[key]

    def _judge(self, release: str, python: str, case: Case, verdict: Verdict, target: Target) -> Tried:
        there = target.with_setting("python", python) if python else target.without_setting("python")
        judge = self._judges.of(there, case.format)
        faces = SymptomClasses()
        own = faces.of(release_result("", case, verdict, "", ""))
        moved = replace(case, target=there)
        for _ in range(self._times):
            found = judge.verdict(moved)
            if found.is_bug:
                break
        face = faces.of(release_result(release, moved, found, "", ""))
        if face in (own, GOOD):
            return Tried(release, face == own)
        if verdict.outcome is Outcome.CRASH and found.outcome is Outcome.INVALID:
            return Tried(release, False, f"does not die of it ({found.title})")
        return Tried(release, None, f"shows something else: {found.title}")


def open_release(
    package: str, backend: str, release: str, shown: Progress, *, may_be_huge: bool = False
) -> AbstractContextManager[Place]:
    """A place with a release, held while the block runs; raises `Unavailable`."""
    project = project_of_package(package)
    builders = {each.short.builds for each in project.runners if each.short} - {""}
    sources = Sources(package, backend, also=tuple(sorted(builders)))
    if project.installing.is_huge and not may_be_huge and not sources.has(release):
        raise Unavailable(HUGE)
    return sources.open(release, shown)


def look_up_newest(store: Store, *, offline: bool) -> list[tuple[str, Newest]]:
    """Look up, and note, the newest release of each package that the database's failures are of."""
    packages = {project_of(Target.of_data(text).backend).package for text in targets_of(store)}
    doing(f"asking the index for the newest {', '.join(sorted(packages - {''}))}")
    found = [(package, newest_of(package, offline=offline)) for package in sorted(packages - {""})]
    for package, newest in found:
        note_newest(store, package, newest.release)
    return found
