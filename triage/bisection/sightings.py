"""What releases showed of one case: kept in a journal, and told apart by symptom."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.reading import MOST_DOCUMENT, read_bytes, read_text
from oracles.naming.components import signature
from oracles.naming.signature import Signature
from oracles.verdict import Outcome, Verdict
from triage.clustering.similarity import MERGE, compare

GOOD, REFUSED, UNSUPPORTED = "passes", "refused", "unsupported"
NO_BUG = {Outcome.INVALID: REFUSED, Outcome.UNSUPPORTED: UNSUPPORTED}
SILENT = frozenset({UNSUPPORTED})
"""What says nothing of a bug: the release has no kernel for the model, or does not know its opset."""


@dataclass(frozen=True, slots=True)
class Sighting:
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
        """Return the name of the bug, for comparison with others."""
        return Signature(self.version, self.components, "")

    @property
    def document(self) -> dict[str, str]:
        """The sighting as `crux bisect --json` shows it."""
        names = ("release", "outcome", "phase", "symptom", "title", "python", "numpy")
        return {name: getattr(self, name) for name in names}


def sighting(release: str, case: Case, verdict: Verdict, python: str, numpy: str) -> Sighting:
    """Return a case's behaviour on a release, with the bug's name if it shows one."""
    found = None
    if verdict.is_bug:
        found = signature(verdict, case.measure, case)
    return Sighting(
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


class Faces:
    """Gives each sighting a word: the same for one symptom and for those as similar as one bug's.

    A release may say the same thing in slightly other words.
    """

    def __init__(self) -> None:
        self.shown: dict[str, Sighting] = {}

    def of(self, seen: Sighting) -> str:
        """Return the word for a sighting: that of an earlier one that is alike, or a new one."""
        if not Outcome(seen.outcome).is_bug:
            return NO_BUG.get(Outcome(seen.outcome), GOOD)
        for face, other in self.shown.items():
            if seen.symptom == other.symptom or _is_one(seen, other):
                return face
        face = f"failure {len(self.shown) + 1}"
        self.shown[face] = seen
        return face


def _is_one(one: Sighting, other: Sighting) -> bool:
    compared = compare(one.signature, other.signature)
    return not compared.obstacle and compared.distance <= MERGE


class SightingJournal:
    """Sightings as JSON lines, one written before it is used; a last line that a kill cut off is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known = {each.release: each for each in _read(path)}

    def add(self, seen: Sighting) -> None:
        """Write a sighting to the file, and know it from now on."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_torn = self.path.exists() and not read_bytes(self.path, MOST_DOCUMENT).endswith(b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * is_torn + json.dumps(asdict(seen), sort_keys=True) + "\n")
        self.known[seen.release] = seen


def _read(path: Path) -> Iterable[Sighting]:
    for line in read_text(path, advice="remove it").splitlines() if path.exists() else ():
        try:
            facts: dict[str, Any] = json.loads(line)
            components = tuple((str(name), str(text)) for name, text in facts.pop("components"))
            seen = Sighting(components=components, **facts)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
        yield seen
