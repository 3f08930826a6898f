"""The releases between which a failure came, changed its face, or went.

What is seen are words; a change is two neighbours of different words, so that a bug may come, change its face
and go more than once. Between two probes that show the same, nothing is looked at. Each release is run in an
environment of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Range, Target, order_of
from oracles.backends import backends, find_backend
from oracles.naming import Signature, signature
from oracles.sandbox.processes import SandboxError
from oracles.verdict import Outcome, Verdict
from triage.bisection.environments import EnvironmentCache, Unavailable, cache_folder, starting
from triage.bisection.package_index import Interpreter, Offer, list_releases
from triage.cases.sources import judge_often
from triage.clustering.similarity import MERGE, compare
from triage.console.options import CaseOptions
from triage.console.status import Progress
from triage.store.artifacts import note_check
from triage.store.database import Store, open_to_read
from triage.store.failures import get_failure
from triage.store.names import failure_named, is_name

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


PROBES = 8
Seen = dict[int, str | None]
"""By place what was seen; None where nothing can be seen."""


def upcoming(seen: Seen, count: int, first: Iterable[int] = (), probes: int = PROBES) -> int | None:
    """The next place to ask: `first`, the probes, then the middle of a gap in which something changes.

    None at the end.
    """
    begun = (place for place in (*first, *evenly(count, probes)) if place not in seen)
    return next(chain(begun, _middles(seen, count)), None)


def evenly(count: int, probes: int) -> list[int]:
    """Places to ask first, at most `probes` of them with both ends, the newest first."""
    if count <= probes:
        return list(range(count))[::-1]
    return sorted({round(at * (count - 1) / (probes - 1)) for at in range(probes)}, reverse=True)


def _middles(seen: Seen, count: int) -> Iterator[int]:
    """Yield the places near the middle of each gap in which something changes, the newest gap first.

    From an end of the row where nothing can be seen, look for the first place where something can.
    """
    told = sorted(place for place, what in seen.items() if what is not None)
    if not told:
        yield from [place for place in range(count) if place not in seen][:1]
        return
    mute = [place for place in seen if seen[place] is None]
    oldest = max((place for place in mute if place < told[0]), default=-1)
    newest = min((place for place in mute if place > told[-1]), default=count)
    for low, high in reversed([(oldest, told[0]), *changes(seen), (told[-1], newest)]):
        left = [place for place in range(low + 1, high) if place not in seen]
        if left:
            yield min(left, key=lambda place: (abs(place - (low + high) / 2), -place))


@dataclass(frozen=True, slots=True)
class Interval:
    """A run of places that show the same thing; None at an open end."""

    last_good: str | None
    first_bad: str
    last_bad: str
    first_fixed: str | None


ENDS = tuple(each.name for each in fields(Interval))


def intervals(seen: Sequence[tuple[str, str]], wanted: str, silent: frozenset[str]) -> list[Interval]:
    """The runs of releases, oldest first, that show what is wanted.

    `seen` are releases with what they show, in their order; what is `silent` is passed over: it says neither
    that it is there nor that it is gone.
    """
    telling = [(release, what) for release, what in seen if what not in silent]
    found, last_good, start = [], None, None
    for at, (release, what) in enumerate(telling):
        if what == wanted and start is None:
            start, last_good = release, telling[at - 1][0] if at else None
        elif what != wanted and start is not None:
            found.append(Interval(last_good, start, telling[at - 1][0], release))
            start = None
    if start is not None:
        found.append(Interval(last_good, start, telling[-1][0], None))
    return found


def changes(seen: Mapping[int, str | None]) -> list[tuple[int, int]]:
    """The neighbouring places that show different things, the older one first."""
    told = sorted(place for place, what in seen.items() if what is not None)
    return [(one, other) for one, other in pairwise(told) if seen[one] != seen[other]]


Look = Callable[[str], ReleaseResult]
"""What a release shows; raises `Unavailable`."""


@dataclass(frozen=True)
class Bisection:
    """The result of a bisection; `places` are the releases, oldest first, `faces` what each showed."""

    releases: Sequence[str]
    faces: Mapping[int, str | None]
    sightings: Mapping[str, ReleaseResult]
    shown: Mapping[str, ReleaseResult]
    skipped: Mapping[str, str]
    wanted: str

    def intervals(self, face: str) -> list[Interval]:
        """The intervals of releases on which a failure shows, by what was seen so far."""
        told = [(self.releases[at], what) for at, what in sorted(self.faces.items()) if what is not None]
        return intervals(told, face, SILENT)

    @property
    def answer(self) -> Interval | None:
        """The interval of the failure asked for: that with the release it is known on, else the newest."""
        face = next((self.faces[at] for at, name in enumerate(self.releases) if name == self.wanted), None)
        chosen = [face] if face in self.shown else list(self.shown)
        every = [each for name in chosen if name is not None for each in self.intervals(name)]
        holding = [each for each in every if _holds(each, self.wanted)]
        return max(holding or every, key=lambda each: order_of(each.last_bad), default=None)


def bisect_releases(releases: Sequence[str], look: Look, seen_on: str = "") -> Bisection:
    """Search the releases, oldest first, for every change."""
    faces = SymptomClasses()
    sightings: dict[str, ReleaseResult] = {}
    skipped: dict[str, str] = {}
    places = [at for at, name in enumerate(releases) if name == seen_on]
    told: dict[int, str | None] = {}
    while (place := upcoming(told, len(releases), places)) is not None:
        release = releases[place]
        try:
            sightings[release] = seen = look(release)
            told[place] = faces.of(seen)
        except Unavailable as error:
            skipped[release] = str(error)
            told[place] = None
    return Bisection(releases, told, sightings, faces.shown, skipped, seen_on)


def bisect_case(
    case: Case, options: CaseOptions, settings: Settings, shown: Progress, database: Path | None
) -> dict[str, Any]:
    """The JSON document of `crux bisect`, noted in a database together with every release's verdict."""
    offer = list_releases(settings.package, settings.versions)
    releases = [each for each in offer.runnable if settings.versions.holds(each)]
    others = {each: why for each, why in offer.others.items() if settings.versions.holds(each)}
    if not releases:
        why = next((f"{each}: {why}" for each, why in others.items()), "the index has none in it")
        raise UserError(f"{settings.package}: no release of that range can run here; {why}")
    look = ReleaseRunner(case, options, settings, offer, shown)
    found = bisect_releases(releases, look, settings.seen_on)
    told = document(found, others) | {"package": settings.package, "target": str(case.target or "")}
    if database is not None:
        _keep(database, case, found, told)
    return told


def _keep(database: Path, case: Case, found: Bisection, told: Mapping[str, Any]) -> None:
    with Store(database) as store, store.transaction():
        target = str(case.target or "")
        for seen in found.sightings.values():
            facts = {name: getattr(seen, name) for name in ("outcome", "phase", "symptom", "title")}
            note_check(store, case.case_id, target, seen.release, **facts)
        store.log("bisected", case.case_id, **told)


def is_kept(word: str) -> bool:
    """Whether a word names what a database has."""
    return is_name(word) and not Path(word).exists()


def found_on(word: str, options: CaseOptions) -> str:
    """The release on which the database saw the failure or cluster of that name; "" for any other word."""
    if not is_kept(word):
        return ""
    with open_to_read(options.database) as store:
        number = failure_named(store, word)
        return get_failure(store, number).release if number is not None else ""


def target_for(package: str, target: Target) -> Target:
    """The target on which a package is looked at: the case's own where that runs the package."""
    if runs(target.backend, package):
        return target
    found = [name for name in sorted(backends()) if runs(name, package)]
    if not found:
        known = ", ".join(sorted({backend.package for backend in backends().values()}))
        raise UserError(f"--package {package}: no backend runs it; known are {known}")
    return Target(found[-1])


def runs(backend: str, package: str) -> bool:
    """Whether a backend runs a package or, such as `onnxruntime-gpu`, another build of it."""
    own = find_backend(backend).package
    return package == own or package.startswith(f"{own}-")


def document(found: Bisection, others: Mapping[str, str]) -> dict[str, Any]:
    """Write a bisection as plain data; the answer is that of the failure asked for."""
    answer, places = found.answer, {name: at for at, name in enumerate(found.releases)}
    bad = found.sightings[answer.first_bad] if answer else None
    tried = sorted(found.sightings, key=places.__getitem__)
    skipped = {**others, **found.skipped}
    return {
        **(asdict(answer) if answer else dict.fromkeys(ENDS)),
        "symptom": bad.symptom if bad else "",
        "title": bad.title if bad else "",
        "tried": [{**found.sightings[each].document, "shows": found.faces[places[each]]} for each in tried],
        "failures": [_face_document(found, face) for face in found.shown],
        "skipped": [{"release": each, "why": skipped[each]} for each in sorted(skipped, key=order_of)],
    }


def _face_document(found: Bisection, face: str) -> dict[str, Any]:
    seen = found.shown[face]
    every = [asdict(each) for each in found.intervals(face)]
    return {"shows": face, "symptom": seen.symptom, "title": seen.title, "intervals": every}


def _holds(interval: Interval, release: str) -> bool:
    if not release:
        return False
    return order_of(interval.first_bad) <= order_of(release) <= order_of(interval.last_bad)
