"""What releases show of one case: run in environments of their own, grouped by symptom."""

from dataclasses import dataclass
from functools import partial

from corpus.case import Case
from corpus.target import Range
from oracles.naming import Signature, signature
from oracles.sandbox.processes import SandboxError
from oracles.verdict import Outcome, Verdict
from triage.bisection.environments import EnvironmentCache, Unavailable, cache_folder, starting
from triage.bisection.package_index import Interpreter, Offer
from triage.cases.sources import judge_often
from triage.clustering.similarity import MERGE, compare
from triage.console.options import CaseOptions
from triage.console.status import Progress

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


@dataclass(frozen=True)
class Settings:
    """The settings of a bisection: package, range, and a release that is known to fail.

    A release is judged up to `repeat` times: a failure that comes and goes is bad if it shows once.
    """

    package: str
    versions: Range
    seen_on: str = ""
    repeat: int = 1


@dataclass(frozen=True)
class ReleaseRunner:
    """Looks at a release in an environment with it."""

    case: Case
    options: CaseOptions
    settings: Settings
    offer: Offer
    shown: Progress

    def __call__(self, release: str) -> ReleaseResult:
        """What a release shows; raises `Unavailable` if it cannot be installed."""
        self.shown.status(f"trying {self.settings.package} {release}")
        try:
            seen = self._judge(release, self.offer.runnable[release])
        except Unavailable as error:
            self.shown.note(f"{release}: skipped, {error}")
            raise
        self.shown.note(f"{release}: {seen.outcome}{f', {seen.title}' if seen.outcome != 'pass' else ''}")
        return seen

    def _judge(self, release: str, interpreter: Interpreter) -> ReleaseResult:
        target = self.case.target
        assert target is not None
        works = partial(starting, target.backend)
        cache = EnvironmentCache(cache_folder(), self.settings.package, works, say=self.shown.note)
        with cache.environment(release, interpreter) as made:
            try:
                there = target.with_setting("python", str(made.python))
                with self.options.judge(there, format=self.case.format) as judge:
                    verdict, _ = judge_often(judge, self.case, self.settings.repeat)
            except SandboxError as error:
                raise Unavailable(f"it cannot be run ({error})") from error
        minor = ".".join(map(str, interpreter.minor))
        return release_result(release, self.case, verdict, minor, made.numpy)
