"""The release before the one that is watched, asked about single cases."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from corpus.case import Case
from oracles.sandbox.processes import SandboxError
from oracles.verdict import Verdict
from triage.bisection.environments import Unavailable
from triage.cases.judges import Judges
from triage.watching.places import Place
from triage.watching.watch import Watch


class ReleaseBefore:
    """Gives the verdict of the release before on a case; it is opened when first asked."""

    def __init__(self, watch: Watch, place: Place, judges: Judges, stack: ExitStack) -> None:
        self._watch, self._judges, self._stack = watch, judges, stack
        self._release = watch.baseline(place.release)
        self._place: Place | None = None

    def __call__(self, case: Case) -> Verdict | None:
        """Return the verdict; None where there is no such release or it cannot be installed."""
        if self._place is None and self._release:
            opened = self._watch.sources.open(self._release, self._watch.shown)
            try:
                self._place = self._stack.enter_context(opened)
            except Unavailable as error:
                self._watch.shown.note(f"{self._release} cannot be asked: {error}")
                self._release = ""
        if self._place is None:
            return None
        target = self._watch.target_at(self._place, case)
        try:
            return self._judges.of(target, case.format).verdict(replace(case, target=target))
        except SandboxError:
            return None
