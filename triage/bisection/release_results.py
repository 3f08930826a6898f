"""What releases show of one case: run in environments of their own, journaled, grouped by symptom."""

import functools
import hashlib
import json
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from corpus.case import Case
from corpus.reading import MOST_DOCUMENT, read_bytes, read_text
from corpus.target import Range
from oracles.extras import installed_release
from oracles.naming import Signature, signature
from oracles.sandbox.processes import SandboxError
from oracles.verdict import Outcome, Verdict
from triage.bisection.environments import EnvironmentCache, Unavailable, cache_folder, starting
from triage.bisection.package_index import Interpreter, Offer
from triage.cases.sources import judge_often
from triage.clustering.similarity import MERGE, compare
from triage.console.options import CaseOptions
from triage.console.status import Progress
from triage.store.database import dump

PACKAGES = ("corpus", "oracles")
LEANT_ON = ("onnx", "numpy", "ml_dtypes", "onnxruntime", "torch")
"""They infer types, run baselines and tell the truth in float64."""


@functools.cache
def edition() -> str:
    """The same as long as no verdict can change, as far as that depends on this installation."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256(" ".join(installed_release(each) or "none" for each in LEANT_ON).encode())
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".c"):
                digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


GOOD, REFUSED, UNSUPPORTED = "passes", "refused", "unsupported"
NO_BUG = {Outcome.INVALID: REFUSED, Outcome.UNSUPPORTED: UNSUPPORTED}
SILENT = frozenset({UNSUPPORTED})
"""What says nothing of a bug: the release has no kernel for the model, or does not know its opset."""


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """One release's verdict on the case, without the runs."""

    release: str
    outcome: str
    phase: str
    symptom: str
    title: str
    version: int
    components: tuple[tuple[str, str], ...]
    python: str
    numpy: str

    @property
    def signature(self) -> Signature:
        """The name of the bug, for comparison with others."""
        return Signature(self.version, self.components, "")

    @property
    def document(self) -> dict[str, str]:
        """The sighting as `crux bisect --json` shows it."""
        names = ("release", "outcome", "phase", "symptom", "title", "python", "numpy")
        return {name: getattr(self, name) for name in names}


def release_result(release: str, case: Case, verdict: Verdict, python: str, numpy: str) -> ReleaseResult:
    """A case's behaviour on a release, with the bug's name if it shows one."""
    found = None
    if verdict.is_bug:
        found = signature(verdict, case.measure, case)
    return ReleaseResult(
        release,
        verdict.outcome.value,
        verdict.phase.value,
        str(verdict.symptom or ""),
        verdict.title,
        found.version if found else 0,
        found.components if found else (),
        python,
        numpy,
    )


class SymptomClasses:
    """Gives each sighting a word: the same for one symptom and for those as similar as one bug's.

    A release may say the same thing in slightly other words.
    """

    def __init__(self) -> None:
        self.shown: dict[str, ReleaseResult] = {}

    def of(self, seen: ReleaseResult) -> str:
        """The word for a sighting: that of an earlier one that is alike, or a new one."""
        if not Outcome(seen.outcome).is_bug:
            return NO_BUG.get(Outcome(seen.outcome), GOOD)
        for face, other in self.shown.items():
            if seen.symptom == other.symptom or _is_one(seen, other):
                return face
        face = f"failure {len(self.shown) + 1}"
        self.shown[face] = seen
        return face


def _is_one(one: ReleaseResult, other: ReleaseResult) -> bool:
    compared = compare(one.signature, other.signature)
    return (not compared.obstacle and compared.distance <= MERGE) or _is_reworded(one, other)


def _is_reworded(one: ReleaseResult, other: ReleaseResult) -> bool:
    """Whether one operator throws, on one side only: releases word checks anew, or make them earlier."""
    facts, others = dict(one.components), dict(other.components)
    return bool(facts.get("op") and facts.get("side")) and all(
        facts.get(name) == others.get(name) for name in ("backend", "outcome", "side", "op")
    )


class ReleaseJournal:
    """Sightings as JSON lines, one written before it is used; a last line that a kill cut off is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known = {each.release: each for each in _read(path)}

    def add(self, seen: ReleaseResult) -> None:
        """Write a sighting to the file, and know it from now on."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_torn = self.path.exists() and not read_bytes(self.path, MOST_DOCUMENT).endswith(b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * is_torn + json.dumps(asdict(seen), sort_keys=True) + "\n")
        self.known[seen.release] = seen


def _read(path: Path) -> Iterable[ReleaseResult]:
    for line in read_text(path, advice="remove it").splitlines() if path.exists() else ():
        try:
            facts: dict[str, Any] = json.loads(line)
            components = tuple((str(name), str(text)) for name, text in facts.pop("components"))
            seen = ReleaseResult(components=components, **facts)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
        yield seen


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
class ReleaseRunner:
    """Looks at a release: from the journal, or in an environment with it; ahead, where told what comes."""

    case: Case
    options: CaseOptions
    settings: Settings
    offer: Offer
    shown: Progress

    def __post_init__(self) -> None:
        name = f"{self.case.case_id[:16]}-{self._circumstances()}.jsonl"
        self._journal = ReleaseJournal(self.settings.cache / "bisections" / name)
        self._cache = EnvironmentCache(
            self.settings.cache,
            self.settings.package,
            functools.partial(starting, self.case.target.backend if self.case.target else ""),
            most_bytes=self.settings.cache_bytes,
            say=self.shown.note,
        )
        self._pool = ThreadPoolExecutor(self.options.jobs)
        self._looks: dict[str, Future[ReleaseResult]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __call__(self, release: str) -> ReleaseResult:
        """Look at a release; raises `Unavailable` if it cannot be installed."""
        self.shown.status(f"trying {self.settings.package} {release}")
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

    def _look(self, release: str) -> Future[ReleaseResult]:
        if release not in self._looks:
            self._looks[release] = self._pool.submit(self._judge, release, self.offer.runnable[release])
        return self._looks[release]

    def _judge(self, release: str, interpreter: Interpreter) -> ReleaseResult:
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
        seen = release_result(release, self.case, verdict, minor, made.numpy)
        with self._lock:
            self._journal.add(seen)
        return seen

    def _circumstances(self) -> str:
        """A digest of all that a verdict depends on besides case and release."""
        chosen = asdict(replace(self.options, db=None, json=False, inputs=None, jobs=1, seed=None))
        chosen = {key: str(value) if isinstance(value, Path) else value for key, value in chosen.items()}
        words = [self.settings.package, self.settings.repeat, str(self.case.target), chosen, edition()]
        return hashlib.sha256(dump(words).encode()).hexdigest()[:12]
