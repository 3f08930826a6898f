"""Memory faults: one misuse of memory that shows as a signal, an abort or wrong values by turns.

Where a guarded run shows the misuse itself, that is what a reduction keeps, and one run says it. Elsewhere
each way in which the original was seen to end counts as the failure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from corpus.case import Case
from oracles.judge import Judge
from oracles.probes.memory import guarded_from, misuse
from oracles.verdict import Config, Mark, Outcome, Phase, Symptom, Verdict, kind_of_misuse
from reducer.engine.journal import Answer
from reducer.engine.predicates import JudgePool

LOOKS = 4
"""How often a failure that may be one of memory is judged again, to see in which ways it ends."""


@dataclass(frozen=True)
class MemoryFault:
    """A failure's misuse of memory: in `words` if a guarded run shows it, and the symptoms it was seen by."""

    words: str
    symptoms: frozenset[Symptom]

    def shows_as(self, symptom: Symptom | None) -> bool:
        """Return whether a verdict with this symptom shows the fault."""
        if symptom is None:
            return False
        is_wrong = bool(self.words) and symptom.outcome is Outcome.MISMATCH
        return is_wrong or symptom.is_of_memory or symptom in self.symptoms


def memory_fault(judge: Judge, case: Case, verdict: Verdict) -> MemoryFault | None:
    """The memory fault behind a verdict; None if nothing shows that it is one."""
    symptom, failing = verdict.symptom, verdict.failing
    if symptom is None or failing is None or not _is_suspect(verdict, symptom):
        return None
    words = misuse(judge.executor, case, failing.config, guarded_from(verdict.phase))
    if words:
        return MemoryFault(words, frozenset([symptom]))
    again = {judge.verdict(case).symptom for _ in range(LOOKS)}
    symptoms = frozenset(each for each in (symptom, *again) if each is not None)
    is_by_turns = len(symptoms) > 1 and any(each.is_of_memory for each in symptoms)
    return MemoryFault("", symptoms) if is_by_turns else None


def _is_suspect(verdict: Verdict, symptom: Symptom) -> bool:
    is_unsteady = Mark.STATE_DEPENDENT in verdict.marks or symptom.kind == "nondeterministic"
    return symptom.is_of_memory or is_unsteady


@dataclass(frozen=True)
class SameMisuse:
    """Interesting while a configuration misuses memory in the same way, and the `baseline`, if given, not."""

    judges: JudgePool
    config: Config
    words: str
    phase: Phase
    baseline: Config | None = None

    @classmethod
    def of(cls, judges: JudgePool, verdict: Verdict, fault: MemoryFault) -> SameMisuse:
        """The predicate for a failure's memory fault; an un-optimised run must be right if it was."""
        baseline, failing, symptom = verdict.runs[0].config, verdict.failing, verdict.symptom
        config = failing.config if failing is not None else baseline
        is_optimised = symptom is not None and "optimised" in (symptom.side, symptom.site)
        own = baseline if is_optimised and config != baseline and not baseline.backend else None
        return cls(judges, config, fault.words, verdict.phase, own)

    def __call__(self, case: Case) -> Answer:
        """Ask whether a candidate is interesting, and what it showed."""
        start = guarded_from(self.phase)
        with self.judges.one() as judge:
            if judge.open(case).undefined:
                return Answer(False, "invalid")
            kind = kind_of_misuse(self.words)
            words = misuse(judge.executor, case, self.config, start, kind)
            is_same = kind_of_misuse(words) == kind
            if is_same and self.baseline is not None:
                is_same = not misuse(judge.executor, case, self.baseline, start, kind)
        return Answer(is_same, f"memory: {words}" if words else "")


def by_turns(verdict: Verdict | None, rate: float) -> Verdict | None:
    """The verdict, marked if it is a misuse of memory that does not show in every run."""
    if verdict is None or rate == 1 or Mark.MEMORY not in verdict.marks:
        return verdict
    mark = Mark.STATE_DEPENDENT
    return replace(verdict, marks={**verdict.marks, mark: mark.value})
