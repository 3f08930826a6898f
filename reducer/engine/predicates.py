"""What makes a candidate interesting: the same symptom on a target, or what a user's command says."""

from __future__ import annotations

import os
import queue
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import monotonic

from corpus.case import Case
from corpus.formats import find_format
from corpus.processes import end_group, start_for_user, wait
from oracles.judge import Judge
from oracles.numerics.compare import compare_outputs
from oracles.probes.memory import guarded_from, misuse
from oracles.probes.tir_context import interpretation_of
from oracles.sandbox.sandbox import Job
from oracles.sandbox.scratch import Scratch
from oracles.verdict import (
    MISUSE,
    Config,
    Mark,
    Outcome,
    Phase,
    Run,
    Status,
    Symptom,
    Verdict,
    kind_of_misuse,
)
from reducer.engine.journal import Answer, RunEvidence
from reducer.pass_sets import core_at, puts_in_alike
from reducer.subject.base import Subject

FACTOR = 20
FLOOR = 5.0
"""No candidate gets fewer seconds: a machine may stall for that long."""

RECENT = 31
SOME = 3
"""So many evaluations must have ended before they say anything."""


@dataclass
class AdaptiveTimeout:
    """The limit in wall seconds, from the running median of those that ended; `most` is the user's own.

    What ran out of time says nothing of how long the others take.
    """

    most: float
    taken: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def limit(self) -> float:
        """Seconds that the next candidate may take: a multiple of the median so far."""
        if len(self.taken) < SOME:
            return self.most
        return min(self.most, max(FLOOR, FACTOR * median(self.taken)))

    @contextmanager
    def timed(self) -> Iterator[float]:
        """The limit of one evaluation, which is noted where it keeps to it."""
        limit, start = self.limit, monotonic()
        yield limit
        taken = monotonic() - start
        if taken < limit:
            self.taken.append(taken)


SKIP = 125
"""The exit code by which a command says that a candidate cannot be judged."""


@dataclass(frozen=True)
class SameSymptom:
    """Interesting while the target shows exactly this symptom; `only` is the configuration that failed.

    With `needs_baseline` the un-optimised run must end well, as it did for the original: a model that it
    refuses, or dies of, crashes the optimiser for a reason of its own. A `quick` one asks where runs are
    cheap, with `plainly` by code that is not optimised; whoever takes its answers has the result judged in
    full. `also` says which other symptoms count.
    """

    judges: JudgePool
    symptom: Symptom
    only: Config | None = None
    on_other: Callable[[Case, Verdict], None] = lambda case, verdict: None
    patience: AdaptiveTimeout = field(default_factory=lambda: AdaptiveTimeout(float("inf")))
    needs_baseline: bool = False
    quick: bool = False
    plainly: bool = False
    also: Callable[[Symptom | None], bool] = lambda symptom: False

    def __call__(self, case: Case) -> Answer:
        """Ask whether a candidate is interesting, and what it showed."""
        with self.judges.one() as judge, self._way(judge):
            if self.symptom.outcome is Outcome.TIMEOUT:
                verdict = judge.verdict(case, only=self.only)
            else:
                with self.patience.timed() as limit:
                    judge.executor.hurry(limit)
                    verdict = judge.verdict(case, only=self.only, baseline=self._baseline(case, judge))
            witness = _witness(verdict, judge)
        is_same = verdict.symptom == self.symptom or self.also(verdict.symptom)
        interesting = is_same and (not self.needs_baseline or (bool(verdict.runs) and verdict.runs[0].is_ok))
        if not is_same and _is_a_find(verdict):
            self.on_other(case, verdict)
        is_unsteady = interesting and Mark.STATE_DEPENDENT in verdict.marks
        return Answer(interesting, str(verdict.symptom or ""), witness, is_unsteady)

    def _way(self, judge: Judge) -> AbstractContextManager[None]:
        return judge.executor.quickly(plainly=self.plainly) if self.quick else nullcontext()

    def _baseline(self, case: Case, judge: Judge) -> Run | None:
        """The interpreter's result for the un-optimised run, if only optimised loops can fail."""
        is_optimised = "optimised" in (self.symptom.side, self.symptom.site) and not self.needs_baseline
        if not self.quick or not is_optimised or self.only is None or self.only.asked_by:
            return None
        found = interpretation_of(case.program, case.inputs)
        if not found.is_defined or not found.outputs:
            return None
        return Run(judge.configs[0], Status.OK, Phase.EXECUTE, found.outputs)


def _is_a_find(verdict: Verdict) -> bool:
    """Whether another symptom is worth keeping; what every configuration refuses may be our own doing."""
    if verdict.outcome is Outcome.EXCEPTION:
        return any(run.is_ok for run in verdict.runs)
    return verdict.outcome in (Outcome.CRASH, Outcome.MISMATCH)


def _witness(verdict: Verdict, judge: Judge) -> RunEvidence:
    """The position of the most wrong value, as pairs of a dim of its output and an index."""
    if verdict.outcome is not Outcome.MISMATCH:
        return ()
    expected, actual = verdict.runs[0].outputs, verdict.runs[-1].outputs
    difference = compare_outputs(expected, actual, judge.screen)
    value = expected.get(difference.output) if difference else None
    if difference is None or value is None or isinstance(value, list) or not difference.where:
        return ()
    return tuple((dim, at) for dim, at in zip(value.shape, difference.where, strict=True) if dim > 1)


@dataclass(frozen=True)
class Command:
    """Interesting when `sh -c COMMAND` exits with `wanted`; `{}` in it is the candidate's program.

    `printed` are files of the program as its own tools take it, beside the case; the first is `{}` then.

    It runs in the caller's environment and folder, in a process group of its own that is killed after
    `timeout` seconds, or sooner where the others took far less; that counts as not interesting, as does
    exit 125 (skip). It is killed when crux itself dies, too.
    """

    command: str
    wanted: int = 0
    timeout: float = 300.0
    patience: AdaptiveTimeout | None = None
    printed: Callable[[Case], Mapping[str, bytes]] = lambda case: {}

    def __call__(self, case: Case) -> Answer:
        """Ask whether a candidate is interesting, and what it showed."""
        with closing(Scratch()) as scratch:
            folder = scratch.folder / "case"
            case.save(folder)
            printed = self.printed(case)
            for name, content in printed.items():
                (folder / name).write_bytes(content)
            program = next(iter(printed), find_format(case.format).program_file)
            with (self.patience or AdaptiveTimeout(self.timeout)).timed() as limit:
                code = _exit_code(self._line(folder / program), limit)
        if code is None:
            return Answer(False, "timeout")
        return Answer(code == self.wanted and code != SKIP, f"exit {code}")

    def _line(self, model: Path) -> str:
        quoted = shlex.quote(str(model))
        return self.command.replace("{}", quoted) if "{}" in self.command else f"{self.command} {quoted}"


@dataclass(frozen=True)
class CuredWithout:
    """Interesting when the failure goes with these passes disabled: it is still the bug of the original."""

    judges: JudgePool
    symptom: Symptom
    config: Config
    passes: tuple[str, ...]

    def __call__(self, case: Case) -> Answer:
        """Ask whether a failing candidate is interesting, and what it showed."""
        with self.judges.one() as judge:
            known = judge.backend.passes
            if known is None:
                return Answer(True, str(self.symptom))
            verdict = judge.verdict(case, only=known.without(self.config, self.passes))
        return Answer(verdict.symptom != self.symptom, str(self.symptom))


@dataclass(frozen=True)
class SameRewrite:
    """Interesting when the passes replace nothing but what they replaced in the original (`core`)."""

    judges: JudgePool
    config: Config
    passes: tuple[str, ...]
    core: str

    def __call__(self, case: Case) -> Answer:
        """Ask whether a failing candidate is interesting, and what it showed."""
        with self.judges.one() as judge:
            found = core_at(case, self.config, self.passes, judge)
        return Answer(puts_in_alike(found, self.core), f"rewrites {found}")


@dataclass(frozen=True)
class Both:
    """Interesting when both are; the second is asked only where the first holds."""

    first: Callable[[Case], Answer]
    second: Callable[[Case], Answer]

    def __call__(self, case: Case) -> Answer:
        """Ask whether a candidate is interesting, and what it showed."""
        answer = self.first(case)
        return self.second(case) if answer.interesting else answer


class JudgePool:
    """Judges for several threads: each is made when first needed and used by one thread at a time.

    One that is `lent` comes first, and is left open.
    """

    def __init__(self, make: Callable[[], Judge], lent: Judge | None = None) -> None:
        self._make = make
        self._idle: queue.SimpleQueue[Judge] = queue.SimpleQueue()
        self._made: list[Judge] = []
        if lent is not None:
            self._idle.put(lent)

    @contextmanager
    def one(self) -> Iterator[Judge]:
        """A judge for one question, taken back when the block ends."""
        try:
            judge = self._idle.get_nowait()
        except queue.Empty:
            judge = self._make()
            self._made.append(judge)
        try:
            yield judge
        finally:
            self._idle.put(judge)

    def close(self) -> None:
        """Close every judge that was made."""
        for judge in self._made:
            judge.close()


GUARDED = 'exec 3<&0; { read -r _ <&3; kill -9 0; } & exec sh -c "$1" </dev/null 3<&-'
"""Runs a line beside a guard that kills their process group when standard input ends: when crux is dead."""


def _exit_code(line: str, timeout: float) -> int | None:
    """The exit code of a shell line, None when it ran out of time; nothing of its group survives it.

    Nor does anything survive crux: only crux holds the other end of the pipe that the guard reads from.
    """
    guard, ours = os.pipe()
    try:
        process = start_for_user(["sh", "-c", GUARDED, "sh", line], stdin=guard)
        os.close(guard)
        try:
            return wait(process, timeout)
        finally:
            end_group(process)
    finally:
        os.close(ours)


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
        if (self.operator and self.operator not in subject.operators) or subject.is_emptied:
            return False
        return self.plain is None or self.plain.accepts(subject)


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
        return Answer(is_same, f"{MISUSE}{words}" if words else "")


def by_turns(verdict: Verdict | None, rate: float) -> Verdict | None:
    """The verdict, marked if it is a misuse of memory that does not show in every run."""
    if verdict is None or rate == 1 or Mark.MEMORY not in verdict.marks:
        return verdict
    mark = Mark.STATE_DEPENDENT
    return replace(verdict, marks={**verdict.marks, mark: mark.value})
