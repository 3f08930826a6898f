"""Throw-away environments, each with one release of a framework, kept in a cache that is capped and pruned.

A folder in the cache is complete when it holds `environment.json`; what a kill left half made is made anew.
Whoever uses an environment holds its lock shared, so that nobody removes it meanwhile.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from corpus import processes
from corpus.errors import UserError
from corpus.reading import Fields, Text, held_to, read_json, write_fresh
from corpus.target import Target, numbers
from oracles.extras import installed_release
from oracles.sandbox.processes import SandboxError
from oracles.sandbox.sandbox import Sandbox
from triage.bisection.package_index import Interpreter, own_interpreter
from triage.console.options import MARKER
from triage.console.status import Progress
from triage.projects import Installing, project_of_package

FACTS = Fields({"numpy": Text(), "bytes": int}, {"also": [Text()]})
INSTALL_SECONDS = 1800
OLD_NUMPY = "numpy<2"
QUIETLY = ("-q", "--no-compile", "--disable-pip-version-check", "--no-input", "--only-binary=:all:")
"""A release for which there is only source is not compiled."""


class Unavailable(Exception):
    """There can be no environment for a release, with the reason in one line."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter with one release installed, and the numpy that it runs with."""

    python: Path
    numpy: str


@dataclass(frozen=True)
class EnvironmentCache:
    """The folder; `works` says what of an interpreter's framework is wrong ("" is nothing), and its numpy.

    `also` are packages to add where they can be had, such as what a script builds its model with. Where to
    look for packages is pip's own configuration.
    """

    root: Path
    package: str
    works: Callable[[Path], tuple[str, str]]
    most_bytes: int = 20 << 30
    say: Callable[[str], object] = field(default=lambda text: None)
    also: tuple[str, ...] = ()

    def has(self, release: str, interpreter: Interpreter) -> bool:
        """Whether the environment of a release is there already."""
        return (self._folder(release, interpreter) / MARKER).exists()

    def _folder(self, release: str, interpreter: Interpreter) -> Path:
        return self.root / f"{self.package}-{release}-{interpreter.tag}"

    @contextlib.contextmanager
    def environment(self, release: str, interpreter: Interpreter) -> Iterator[Environment]:
        """An environment of the release while the block runs; raises `Unavailable`."""
        folder = self._folder(release, interpreter)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder, fcntl.LOCK_EX) as lock:
            if not (folder / MARKER).exists():
                self._make(folder, release, interpreter)
                self.prune(folder)
            self._add(folder)
            os.utime(folder / MARKER)
            fcntl.flock(lock, fcntl.LOCK_SH)
            facts = _facts(folder)
            yield Environment(_python(folder), facts["numpy"])

    def prune(self, kept: Path | None = None) -> list[str]:
        """Remove what was used least recently until the rest fits, never what is in use; the names."""
        made = sorted(self.root.glob(f"*/{MARKER}"), key=lambda path: (path.stat().st_mtime_ns, path))
        sizes = {path.parent: _facts(path.parent)["bytes"] for path in made}
        total, removed = sum(sizes.values()), []
        for folder, size in sizes.items():
            if total > self.most_bytes and folder != kept and _remove_unused(folder):
                total -= size
                removed.append(folder.name)
        return removed

    def _make(self, folder: Path, release: str, interpreter: Interpreter) -> None:
        self.say(f"installing {self.package} {release} for Python {'.'.join(map(str, interpreter.minor))}")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            numpy = self._install(folder, release, interpreter)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        facts = {"package": self.package, "release": release, "numpy": numpy, "bytes": _size(folder)}
        (folder / MARKER).write_text(json.dumps(facts, sort_keys=True))

    def _add(self, folder: Path) -> None:
        """Add the packages that are wanted besides; the environment is as good without one."""
        facts = read_json(folder / MARKER)
        if missing := [each for each in self.also if each not in facts.get("also", ())]:
            pip = [*processes.python(), "-m", "pip", "--python", str(_python(folder))]
            with contextlib.suppress(Unavailable):
                _run([*pip, "install", *QUIETLY, *missing])
            facts |= {"also": list(self.also), "bytes": _size(folder)}
            write_fresh(folder / MARKER, json.dumps(facts, sort_keys=True))

    def _install(self, folder: Path, release: str, interpreter: Interpreter) -> str:
        """Install the first set that works; return its numpy. An old release does not name its own limits."""
        pip = _make_venv(folder, interpreter)
        reason = ""
        for words in self._attempts(folder, release):
            _run([*pip, "install", *QUIETLY, *words])
            reason, version = self.works(_python(folder))
            if not reason:
                return version
        raise Unavailable(f"{self.package} {release} does not start there: {reason}")

    def _attempts(self, folder: Path, release: str) -> Iterator[list[str]]:
        """Yield sets to install: newest numpy, old companions, old numpy; then with all that is declared."""
        wanted = list(self._requirements(release))
        for alone in (["--no-deps"], []) if self._installing.alone else ([],):
            yield [*alone, *wanted, "numpy"]
            oldest = list(_lower_bounds(folder, self.package, self._installing))
            if oldest:
                yield [*alone, *wanted, *oldest, "numpy"]
            yield [*alone, *wanted, *oldest, OLD_NUMPY]

    def _requirements(self, release: str) -> Iterator[str]:
        yield f"{self.package}=={release}"
        yield from self._installing.needs
        yield from self._installing.pinned.get(numbers(release)[:2], ())

    @property
    def _installing(self) -> Installing:
        return project_of_package(self.package).installing


def cache_folder() -> Path:
    """The environments' own folder in crux's cache."""
    return processes.cache_folder() / "environments"


def _facts(folder: Path) -> dict[str, Any]:
    """What is said of a complete environment; raises `UserError`."""
    path, advice = folder / MARKER, "remove its folder, and it is made anew"
    found: dict[str, Any] = held_to(read_json(path, advice=advice), FACTS, str(path), advice)
    return found


def _python(folder: Path) -> Path:
    return folder.absolute() / "bin" / "python"


def _make_venv(folder: Path, interpreter: Interpreter) -> list[str]:
    """Make an empty environment; the command of a pip that installs into it.

    Our own pip serves our own version of Python; others get theirs, since a new pip does not run under them.
    """
    python = str(_python(folder))
    if interpreter.minor == sys.version_info[:2]:
        _run([str(interpreter.path), "-I", "-m", "venv", "--without-pip", str(folder.absolute())])
        return [*processes.python(), "-m", "pip", "--python", python]
    _run([str(interpreter.path), "-I", "-m", "venv", str(folder.absolute())])
    return [python, "-I", "-m", "pip"]


def _lower_bounds(folder: Path, package: str, installing: Installing) -> Iterator[str]:
    """Yield the companions of an installed package in the oldest release of each that it declares."""
    name = package.replace("-", "_")
    for path in sorted(folder.glob(f"lib/python*/site-packages/{name}-*.dist-info/METADATA")):
        for companion in installing.built_with:
            declared = re.search(
                rf"^Requires-Dist: {companion}\b[^;\n]*>=\s*([\w.]+)", path.read_text(), re.M
            )
            if declared:
                yield f"{companion}=={declared[1]}"


def _run(command: list[str]) -> None:
    try:
        done = processes.run(command, INSTALL_SECONDS, variables=processes.environment(processes.INSTALLING))
    except processes.NotRun as error:
        raise Unavailable(str(error)) from None
    if done.code:
        told = [line for line in done.errors.splitlines() if line.startswith("ERROR")]
        raise Unavailable((told or ["no reason given"])[-1].removeprefix("ERROR: "))


@contextlib.contextmanager
def _locked(folder: Path, how: int) -> Iterator[int]:
    """Hold the lock that stands for a folder; it lies beside the folder and outlives it."""
    descriptor = os.open(folder.with_name(folder.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield descriptor
    finally:
        os.close(descriptor)


def _remove_unused(folder: Path) -> bool:
    """Remove an environment that nobody uses now; whether that was so."""
    try:
        with _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
            # out of the way in one step: a kill half way through must not leave a marker
            (folder / MARKER).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return False
    return True


def _size(folder: Path) -> int:
    """Bytes of its files on the disk."""
    every = (path.lstat() for path in folder.rglob("*"))
    return sum(facts.st_blocks * 512 for facts in every)


@dataclass(frozen=True, slots=True)
class Place:
    """A release and the Python that has it; empty for crux's own."""

    release: str
    python: str = ""

    def target_of(self, target: Target) -> Target:
        """The target as this release has it."""
        return target.with_setting("python", self.python) if self.python else target


@dataclass(frozen=True)
class Sources:
    """The releases of a package: crux's own, and those in environments; `also` are packages to add there."""

    package: str
    backend: str
    also: tuple[str, ...] = ()

    @contextmanager
    def open(self, release: str, shown: Progress) -> Iterator[Place]:
        """A place for a release, held while the block runs; raises `Unavailable`."""
        if release == self._own_release:
            yield Place(release)
            return
        with self._cache(shown.note).environment(release, own_interpreter()) as environment:
            yield Place(release, str(environment.python))

    @property
    def _own_release(self) -> str:
        """The release in crux's own environment; empty where there is none."""
        return installed_release(self.package).partition("+")[0]

    def has(self, release: str) -> bool:
        """Whether nothing has to be installed for a release."""
        return release == self._own_release or self._cache().has(release, own_interpreter())

    def _cache(self, say: Callable[[str], object] = lambda text: None) -> EnvironmentCache:
        works = partial(starting, self.backend)
        return EnvironmentCache(cache_folder(), self.package, works, say=say, also=self.also)


def starting(backend: str, python: Path) -> tuple[str, str]:
    """What is wrong with an interpreter's framework, by the backend's worker under it, and its numpy."""
    with Sandbox(backend, python=str(python)) as sandbox:
        try:
            return "", str(sandbox.facts["numpy"])
        except (UserError, SandboxError) as error:
            return " ".join(str(error).split())[-200:], ""
