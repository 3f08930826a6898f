"""Misuse of memory: what a failing run does to memory that is not its own, or that nothing was written to.

A guarded run shows a write or a read beyond a block, or after its release, where it happens. A run whose
result hangs on what fresh memory holds reads memory that nothing was written to.
"""

from __future__ import annotations

import re
from dataclasses import replace

from corpus.case import Case
from oracles.abilities import language_of
from oracles.numerics.compare import Tolerance, compare_outputs
from oracles.sandbox.executor import Executor
from oracles.verdict import MISUSE, Config, Mark, Outcome, Phase, Run, Status, Verdict

POISONS = (0x3E, 0xC2)
"""As floats 0.186 and -48.5; as integers far beyond any shape."""

UNINITIALISED = "reads uninitialised memory"

_TOLD = re.compile(rf"^{MISUSE}(.+)$", re.MULTILINE)


def misuse(
    executor: Executor, case: Case, config: Config, start: Phase = Phase.EXECUTE, kind: str = ""
) -> str:
    """Return what a configuration does to memory, such as `write beyond a block of 40 bytes`; empty if right.

    Guarded from a phase on; only misuse of a `kind` is looked for, if one is given.
    """
    if not _can_be_watched(executor, config):
        return ""
    first = executor.guarded(case, config, POISONS[0], start)
    if (told := _told_by(first)) or kind not in ("", UNINITIALISED):
        return told
    other = executor.guarded(case, config, POISONS[1], start)
    if (told := _told_by(other)) or _agree(first, other):
        return told
    return UNINITIALISED if _agree(first, executor.guarded(case, config, POISONS[0], start)) else ""


def _can_be_watched(executor: Executor, config: Config) -> bool:
    """Whether a configuration is the target's own, in memory of this machine."""
    return not config.backend and executor.target.device == "cpu"


def _hangs_on_memory(executor: Executor, case: Case, config: Config, start: Phase) -> bool:
    """Whether two fillings of fresh memory give two results; a first look, without guard."""
    if not _can_be_watched(executor, config):
        return False
    one, other = (executor.poisoned(case, config, poison, start) for poison in POISONS)
    return not _agree(one, other)


def with_misuse(executor: Executor, case: Case, verdict: Verdict) -> Verdict:
    """The verdict with a note of how its runs misuse memory, if one dies or gives wrong values."""
    symptom, failing = verdict.symptom, verdict.failing
    if symptom is None or failing is None or failing.config.asked_by or Mark.MEMORY in verdict.marks:
        return verdict
    if symptom.outcome is not Outcome.MISMATCH and not symptom.is_of_memory:
        return verdict
    own = [failing.config, *(run.config for run in verdict.runs if run.is_ok and not run.config.backend)]
    start = guarded_from(verdict.phase)
    ways = dict.fromkeys(own)
    if symptom.outcome is Outcome.MISMATCH and not language_of(case.format).runs_quickly:
        ways = dict.fromkeys(way for way in ways if _hangs_on_memory(executor, case, way, start))
    words = next(filter(None, (misuse(executor, case, way, start) for way in ways)), "")
    if not words:
        return verdict
    note = f"{MISUSE}{words}"
    return replace(verdict, notes=(*verdict.notes, note), marks={**verdict.marks, Mark.MEMORY: note})


def guarded_from(phase: Phase) -> Phase:
    """The phase from which on a failing run is guarded: compiling takes too many blocks for that."""
    return phase if phase is Phase.OPTIMISE else Phase.EXECUTE


def _told_by(run: Run) -> str:
    found = _TOLD.findall(run.message) if run.status is Status.CRASH else []
    return str(found[-1]) if found else ""


def _agree(one: Run, other: Run) -> bool:
    if not (one.is_ok and other.is_ok):
        return one.status is other.status
    return compare_outputs(one.outputs, other.outputs, Tolerance(0.0, 0.0)) is None
