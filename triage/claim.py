"""What a report claims, in terms of plain runs: which configuration fails how, and which one does not."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from corpus.case import Case
from corpus.errors import UserError
from corpus.values import Value
from oracles.normalise import name_operators, parse_message, template, unwrap, without_instructions
from oracles.numerics.compare import Tolerance, compare_outputs
from oracles.optional import FACTOR, SLOWER
from oracles.probes.memory import UNINITIALISED
from oracles.verdict import MISUSE, Config, Mark, Outcome, Run, Status, Verdict
from triage.projects import ClaimedRun, Project
from triage.views.rendering import scrub


@dataclass(frozen=True)
class Claim:
    """The claim that a script shows: the expectation, one line that names it, and how it was judged."""

    expectation: Expectation
    title: str
    tolerance: Tolerance
    seconds: float
    memory: int


MOST_ESSENCE = 110

UNOPTIMISED, OPTIMISED = "un-optimised", "optimised"
ACCEPTED = "accepted"
"""The kind of mismatch where a program runs that should be refused."""

KEPT_BY_PASSES = {
    "InputChanged": "A pass does not change the module that it is given.",
    "IllFormed": "The module is well-formed after each pass.",
    "NotAgain": "A pass runs on what it has made itself.",
    "IllTyped": "The types of the module agree after each pass.",
}
"""What our checks between passes ask for, by the exception that says otherwise; a script raises its own."""

WRONG = {
    "nan": "NaN where there should be none, or the reverse",
    "value": "wrong values",
    "nondeterministic": "results that change from run to run",
}


def essence(message: str) -> str:
    """The C++ site and what stands after it; the wrapping before it is left out."""
    parsed = parse_message(name_operators(without_instructions(message)))
    text = f"{parsed.site}: {parsed.rest}" if parsed.site else unwrap(parsed.rest)
    rest = " ".join(scrub(text).split())
    return rest if len(rest) <= MOST_ESSENCE else rest[: MOST_ESSENCE - 1] + "…"


def signal_text(run: Run) -> str:
    """The signal that ended a run, such as `SIGSEGV (Segmentation fault)`."""
    try:
        found = signal.Signals(run.signal)
    except ValueError:
        return f"signal {run.signal}" if run.signal else "an exit of its own"
    return f"{found.name} ({signal.strsignal(found)})"


SHORTEST_FRAGMENT = 12
PUNCTUATION = " \t'\"`()[]{}.,:;"
MOST_COMPARED = 2_000
"""Characters of a message that are searched for a piece which its template has rewritten within."""
AGAIN = ", again"


@dataclass(frozen=True)
class Expectation:
    """The claim about a case on a target of this project.

    `failing` is the run that fails (of a mismatch: that differs), `passing` the one that does not, if there
    is one. `fragment` is a part of the failing run's message that holds no names, numbers or paths. `wrong`
    says which side of a mismatch is wrong; `contradiction` what a result is and what its operator fixes, in
    words, where that is the failure. `memory` is how the failing run misuses
    memory, if a guarded run shows it; `misuse` that, or `DIES`, if only a run between closed pages shows it.
    """

    project: Project
    outcome: Outcome
    failing: Run
    passing: Run | None
    fragment: str = ""
    kind: str = ""
    wrong: str = ""
    contradiction: str = ""
    memory: str = ""
    misuse: str = ""

    @property
    def configs(self) -> dict[str, Config]:
        """The configurations by what a report calls them, the passing one first."""
        named = {self.passing_label: self.passing, self.failing_label: self.failing}
        return {label: run.config for label, run in named.items() if run is not None}

    @property
    def own(self) -> dict[str, Config]:
        """The target's own configurations, without another package's baseline."""
        return {label: config for label, config in self.configs.items() if not config.backend}

    def to_show(self, case: Case) -> ClaimedRun:
        """What a script shows of a case; where one raises, no earlier runs that the other refuses too."""
        compares, phase = self.compares_floats, self.failing.phase
        raises = self.outcome is Outcome.EXCEPTION
        left_out = self.passing.refused if raises and self.passing is not None else ()
        earlier = tuple(run for at, run in enumerate(case.earlier_shapes) if at not in left_out)
        shown = ClaimedRun(self.failing.config, self.own, case.passes, compares, phase, self.misuse)
        return replace(shown, earlier=earlier, raises=raises)

    @property
    def compares_floats(self) -> bool:
        """Whether rounding plays a part when the two results are compared."""
        if self.outcome is not Outcome.MISMATCH or self.kind not in ("value", "nan") or self.is_unstable:
            return False
        return has_floats(self.failing.outputs.values())

    @property
    def times(self) -> float:
        """How many times the CPU time of the other run a slow one takes at least."""
        return float(str(self.failing.config.get(FACTOR) or SLOWER))

    @property
    def slowness(self) -> str:
        """How much slower a run is than the other, in words."""
        assert self.passing is not None
        other = self.passing_label.partition(" of ")[2] or "an un-optimised one"
        return (
            f"{self.failing.execute_seconds / self.passing.execute_seconds:.1f} times the CPU time of {other}"
        )

    @property
    def is_by_chance(self) -> bool:
        """Whether it hangs on what fresh memory holds, so that a run without the failure says nothing."""
        return self.memory == UNINITIALISED

    @property
    def broken_rule(self) -> str:
        """What a pass must keep to and does not, if a check between passes says so; else empty."""
        return KEPT_BY_PASSES.get(self.failing.error, "")

    @property
    def is_unstable(self) -> bool:
        """Whether one configuration gives different results in two runs."""
        return self.passing is not None and self.passing.config == self.failing.config

    @property
    def is_baseline_wrong(self) -> bool:
        """Whether of two results the un-optimised one is wrong."""
        return self.outcome is Outcome.MISMATCH and self.wrong == UNOPTIMISED and self.passing is not None

    @property
    def right(self) -> Run | None:
        """The run whose result is expected."""
        return self.failing if self.is_baseline_wrong else self.passing

    @property
    def at_fault(self) -> Run:
        """The run that fails, or whose result is wrong."""
        return self.passing if self.is_baseline_wrong and self.passing else self.failing

    @property
    def failing_label(self) -> str:
        """A report's name for the failing run."""
        return self.failing.config.label + (AGAIN if self.is_unstable else "")

    @property
    def passing_label(self) -> str:
        """A report's name for the run that does not fail; empty if there is none."""
        return self.passing.config.label if self.passing else ""


def has_floats(values: Iterable[Value]) -> bool:
    """Whether any of the values is of floats."""
    tensors = (each for value in values for each in (value if isinstance(value, list) else [value]))
    return any(each is not None and each.dtype.kind not in "biuU" for each in tensors)


PASSES = "passes"
"""The oracle whose checks stand in the script: they are made between the passes of a case."""


def tolerance_showing(verdict: Verdict, tolerance: Tolerance) -> Tolerance:
    """The fixed tolerance by which plain runs show a verdict: half of a wrong value that is a small one."""
    baseline, *others = verdict.runs
    if verdict.wrong is None or not verdict.wrong.error or not others:
        return tolerance.plain
    is_plain = any(
        run.is_ok and compare_outputs(baseline.outputs, run.outputs, tolerance.plain) for run in others
    )
    return tolerance.plain if is_plain else Tolerance(0.0, verdict.wrong.error / 2)


def expect(
    verdict: Verdict,
    tolerance: Tolerance,
    project: Project,
    names: frozenset[str] = frozenset(),
    tells: frozenset[str] = frozenset(),
    told: Run | None = None,
) -> Expectation:
    """The claim of a verdict that is a bug of a project, with what a guarded run shows of memory."""
    found = _expected(verdict, tolerance, project, names, tells, told)
    memory = verdict.marks.get(Mark.MEMORY, "").removeprefix(MISUSE)
    return replace(found, memory=found.failing.misuse or memory, misuse=found.failing.misuse)


def _expected(
    verdict: Verdict,
    tolerance: Tolerance,
    project: Project,
    names: frozenset[str],
    tells: frozenset[str],
    told: Run | None,
) -> Expectation:
    """The claim of a verdict that is a bug of a project; `names`, the model's own, stay out of the fragment.

    `tells` are the oracles whose ways of running the program a script knows; `told` is what a reference gives
    that every run contradicts.

    Raises `UserError` for a failure that plain runs do not show.
    """
    if told is not None:
        kind = verdict.symptom.kind if verdict.symptom else ""
        return Expectation(project, verdict.outcome, verdict.runs[0], told, kind=kind)
    asked_by = next((run.config.asked_by for run in verdict.runs if run.config.asked_by), "")
    if asked_by and (reference := _reference(verdict)):
        kind = verdict.symptom.kind if verdict.symptom else ""
        return Expectation(project, verdict.outcome, verdict.runs[0], reference, kind=kind)
    if asked_by and asked_by.partition(":")[0] not in tells | {PASSES}:
        raise UserError(f"what the oracle {asked_by!r} finds cannot be told by a script of plain runs yet")
    if verdict.outcome is Outcome.MISMATCH:
        return _mismatch(verdict, tolerance, project)
    if verdict.outcome is Outcome.PERF:
        return Expectation(project, verdict.outcome, _once(verdict.runs[1]), _once(verdict.runs[0]))
    failing = next((run for run in verdict.runs if run.status is STATUSES.get(verdict.outcome)), None)
    if failing is None:
        raise UserError(f"{verdict.title}: no run of this shows it, so no script of plain runs can either")
    passing = next((run for run in verdict.runs if run.is_ok), None)
    fragment = longest_fragment(failing.message, names) if failing.status is Status.EXCEPTION else ""
    return Expectation(project, verdict.outcome, failing, passing, fragment)


def _once(run: Run) -> Run:
    """A run that was measured often, by the name of its configuration."""
    return replace(run, config=replace(run.config, label=run.config.label.partition(", ")[0]))


def _mismatch(verdict: Verdict, tolerance: Tolerance, project: Project) -> Expectation:
    baseline, *others = verdict.runs
    kind, wrong = (verdict.symptom.kind, verdict.symptom.site) if verdict.symptom else ("", "")
    if verdict.wrong is not None and verdict.wrong.contradiction:
        told = verdict.wrong
        return Expectation(
            project,
            verdict.outcome,
            baseline,
            None,
            kind=kind,
            wrong=told.side,
            contradiction=told.contradiction,
        )
    ended = (run for run in others if run.is_ok)
    differing = (run for run in ended if compare_outputs(baseline.outputs, run.outputs, tolerance))
    failing = next(differing, None)
    if failing is None:
        raise UserError(f"{verdict.title}: no two runs differ, so no script that compares runs can show it")
    return Expectation(project, verdict.outcome, failing, baseline, kind=kind, wrong=wrong)


def _reference(verdict: Verdict) -> Run | None:
    """The run of another implementation that an oracle was asked to compare with, if its result differs."""
    is_told = verdict.outcome is Outcome.MISMATCH and not (verdict.wrong and verdict.wrong.contradiction)
    others = (run for run in verdict.runs[1:] if run.is_ok and run.config.asked_by and run.config.backend)
    return next(others, None) if is_told else None


STATUSES = {
    Outcome.CRASH: Status.CRASH,
    Outcome.EXCEPTION: Status.EXCEPTION,
    Outcome.TIMEOUT: Status.TIMEOUT,
    Outcome.OUT_OF_MEMORY: Status.OUT_OF_MEMORY,
}
"""How the run ends that shows such an outcome."""


def longest_fragment(message: str, names: frozenset[str]) -> str:
    """The longest piece of a message that its template keeps, word for word; empty when all are short."""
    pieces = re.split(r"<\w+>|[#*\n…]", template(message, names))
    kept = [piece.strip(PUNCTUATION) for piece in pieces]
    whole = _long(piece for piece in kept if piece in message)
    found = whole or _long(_shared(piece, message[:MOST_COMPARED]) for piece in kept)
    return max(found, key=len, default="")


def _long(pieces: Iterable[str]) -> list[str]:
    return [piece for piece in pieces if len(piece) >= SHORTEST_FRAGMENT]


def _shared(piece: str, message: str) -> str:
    """The longest part of a piece that the message has, where the template has rewritten the rest."""
    found = SequenceMatcher(None, piece, message, autojunk=False).find_longest_match()
    return piece[found.a : found.a + found.size].strip(PUNCTUATION)
