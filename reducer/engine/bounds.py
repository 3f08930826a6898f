"""Bounds: what holds of every candidate before it is judged.

Both cost no check. What the un-optimised backend refuses is no case, and where the framework says at which
operator it stopped, a candidate without that operator fails in another way, if at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from corpus.case import Case
from oracles.sandbox.sandbox import Job
from oracles.verdict import Run, Status
from reducer.engine.predicates import JudgePool
from reducer.subject.base import Subject

MOST_BYTES = 64 << 20
"""Of a larger candidate the run takes longer than it saves."""


@dataclass(frozen=True)
class PlainRuns:
    """Runs candidates un-optimised; `like` lends them its settings."""

    pool: JudgePool
    like: Case

    def ends_well(self, subject: Subject) -> bool:
        """Whether the un-optimised run of the original gives its outputs, and is cheap enough to ask."""
        run = self._run(subject)
        return run is not None and run.is_ok

    def accepts(self, subject: Subject) -> bool:
        """Whether the un-optimised run of a candidate raises nothing; one that dies is accepted."""
        run = self._run(subject)
        return run is None or run.status is not Status.EXCEPTION

    def _run(self, subject: Subject) -> Run | None:
        case = subject.case(self.like)
        if len(case.program) + sum(file.size for file in case.external) > MOST_BYTES:
            return None
        with self.pool.one() as judge:
            job = Job(case.program, case.inputs, judge.configs[:1], case.external, format=case.format)
            return judge.executor.rerun(replace(job, loads_only=case.loads_only))[0]


@dataclass(frozen=True)
class Bounds:
    """The bounds of every candidate: the failing `operator`, if known, and `plain` runs, if asked for."""

    operator: str = ""
    plain: PlainRuns | None = None

    def hold(self, subject: Subject) -> bool:
        """Whether a candidate can show the failure at all."""
        if self.operator and self.operator not in subject.operators:
            return False
        return self.plain is None or self.plain.accepts(subject)
