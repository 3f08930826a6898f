"""One target's part of a hunt: its campaign, its judge, what of its failures waits."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass

from oracles.judge import Judge
from triage.campaigns.fuzzing import Fuzzer
from triage.reductions.explained import Explainer
from triage.reductions.selection import Selection
from triage.store.database import Store
from triage.store.failures import Failure


def cpu_of_the_ended() -> float:
    """CPU seconds of the child processes that have ended, such as those of the scripts of reports."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass
class Front:
    """A campaign with what reduces its failures."""

    store: Store
    fuzzer: Fuzzer
    judge: Judge

    def __post_init__(self) -> None:
        self.target = str(self.fuzzer.target)
        self.label = str(self.fuzzer.target.without_setting("python"))
        self.explainer = Explainer(self.store, self.target, self.judge)
        self.selection = Selection(self.store, self.target, self.explainer.is_refuted)

    def waiting(self, *, urgent: bool) -> Failure | None:
        """Return the failure to reduce next; `urgent` ones are the first of their symptom, and end."""
        return self.selection.next(urgent=urgent)

    def cpu(self) -> float:
        """CPU seconds of this process and of the workers that reduce and report."""
        return time.process_time() + self.judge.cpu_seconds()
