"""Looking at releases of a package: in environments of their own, as many at a time as there are jobs."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from corpus.case import Case
from corpus.errors import UserError
from corpus.release import Range
from oracles.edition import edition
from oracles.sandbox.processes import SandboxError
from oracles.sandbox.sandbox import Sandbox
from triage.bisection.environments import EnvironmentCache, Unavailable, cache_folder
from triage.bisection.package_index import Interpreter, Offer
from triage.bisection.sightings import Sighting, SightingJournal, sighting
from triage.cases.verdicts import judge_often
from triage.console.options import CaseOptions
from triage.console.progress import Progress
from triage.store.database import dump


@dataclass(frozen=True)
class Settings:
    """The settings of a bisection: package, range, the release known to fail, the folder of the cache.

    `found_on` is the release that the database remembers; it is used if nobody gives `seen_on`. A release is
    judged up to `repeat` times: a failure that comes and goes is bad if it shows once.
    """

    package: str
    versions: Range
    seen_on: str = ""
    found_on: str = ""
    repeat: int = 1
    cache: Path = field(default_factory=cache_folder)
    cache_bytes: int = 20 << 30


@dataclass
class Looker:
    """Looks at a release: from the journal, or in an environment with it; ahead, where told what comes."""

    case: Case
    options: CaseOptions
    settings: Settings
    offer: Offer
    shown: Progress

    def __post_init__(self) -> None:
        name = f"{self.case.case_id[:16]}-{self._circumstances()}.jsonl"
        self._journal = SightingJournal(self.settings.cache / "bisections" / name)
        self._cache = EnvironmentCache(
            self.settings.cache,
            self.settings.package,
            self._works,
            most_bytes=self.settings.cache_bytes,
            say=self.shown.note,
        )
        self._pool = ThreadPoolExecutor(self.options.jobs)
        self._looks: dict[str, Future[Sighting]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __call__(self, release: str) -> Sighting:
        """Look at a release; raises `Unavailable` if it cannot be installed."""
        try:
            seen = self._journal.known.get(release) or self._look(release).result()
        except Unavailable as error:
            self.shown.note(f"{release}: skipped, {error}")
            raise
        self.shown.note(f"{release}: {seen.outcome}{f', {seen.title}' if seen.outcome != 'pass' else ''}")
        return seen

    def expect(self, releases: Sequence[str]) -> None:
        """Begin to look at what comes, in this order; what was expected before and has not begun waits."""
        for release, look in list(self._looks.items()):
            if look.cancel():
                del self._looks[release]
        new = [each for each in releases if each not in self._journal.known and each not in self._looks]
        for release in new[: 2 * self.options.jobs - 1]:
            self._look(release)

    def _look(self, release: str) -> Future[Sighting]:
        if release not in self._looks:
            self._looks[release] = self._pool.submit(self._judge, release, self.offer.runnable[release])
        return self._looks[release]

    def _judge(self, release: str, interpreter: Interpreter) -> Sighting:
        target = self.case.target
        assert target is not None
        with self._cache.environment(release, interpreter) as made:
            try:
                there = target.with_setting("python", str(made.python))
                with self.options.judge(there, format=self.case.format) as judge:
                    verdict, _ = judge_often(judge, self.case, self.settings.repeat)
            except SandboxError as error:
                raise Unavailable(f"it cannot be run ({error})") from error
        minor = ".".join(map(str, interpreter.minor))
        seen = sighting(release, self.case, verdict, minor, made.numpy)
        with self._lock:
            self._journal.add(seen)
        return seen

    def _works(self, python: Path) -> tuple[str, str]:
        """Return what is wrong with an environment, by the worker under it, and its numpy."""
        assert self.case.target is not None
        with Sandbox(self.case.target.backend, python=str(python)) as sandbox:
            try:
                return "", str(sandbox.facts["numpy"])
            except (UserError, SandboxError) as error:
                return " ".join(str(error).split())[-200:], ""

    def _circumstances(self) -> str:
        """Return a digest of all that a verdict depends on besides case and release."""
        chosen = asdict(replace(self.options, db=None, json=False, inputs=None, jobs=1, seed=None))
        words = [self.settings.package, self.settings.repeat, str(self.case.target), chosen, edition()]
        return hashlib.sha256(dump(words).encode()).hexdigest()[:12]
