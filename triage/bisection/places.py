"""Where a release can be run: crux's own environment, a Python that is named, or one made for it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from corpus.errors import UserError
from corpus.release import order_of
from oracles.sandbox.processes import SandboxError
from oracles.sandbox.sandbox import Sandbox
from triage.bisection.environments import EnvironmentCache, cache_folder
from triage.bisection.package_index import newest_releases, own_interpreter
from triage.console.status import Progress


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
    also: tuple[str, ...] = ()

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
        with self._made(shown.note).environment(release, own_interpreter()) as environment:
            yield Place(release, str(environment.python))

    def has(self, release: str) -> bool:
        """Whether nothing has to be installed for a release."""
        return release == _installed(self.package) or self._made().has(release, own_interpreter())

    def _made(self, say: Callable[[str], object] = lambda text: None) -> EnvironmentCache:
        return EnvironmentCache(
            self.cache / self._folder, self.package, self._works, say=say, sources=self._words, also=self.also
        )

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
