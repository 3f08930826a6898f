"""The judge: runs a case as its target says and gives the verdict."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from corpus.allowance import OutOfTime, allowed, extend, is_short_of
from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from oracles.abilities import Backend, Opened, language_of
from oracles.backends import find_backend
from oracles.backends.inductor import HEADERS
from oracles.naming import symptom_of_run
from oracles.native.watching import Watch
from oracles.numerics.compare import AUTO, Tolerance, compare_outputs
from oracles.optional import FACTOR, SETTING, find_asked
from oracles.probes.context import Context, Divergence
from oracles.probes.earlier_runs import held, not_repeated, taken_by_baseline, without_refused
from oracles.probes.wrong_side import is_exported, say_whose
from oracles.rulebook import OptionalOracles, Rulebook
from oracles.rules import is_suspect, sceptical_rules
from oracles.rules.failures import HANGING_TIMES, may_be_long
from oracles.sandbox.executor import Executor, job_of, unsequenced, without_twins
from oracles.screening import Screened, screen
from oracles.verdict import Config, Limits, Mark, Outcome, Phase, Run, Status, Symptom, Verdict

PATIENCE, MOST_PATIENCE = 3, 10
"""How many times the CPU time of a run a suspected hang gets, and a compilation."""

BATCH_TIMES = 2
"""How many times the CPU time of a run a batch gets of programs that take long to compile."""

LEVELS_LEFT_OUT = "out of time: the lower levels of optimisation were not run"

_LIMITS = Limits()

FEW, MANY = 2, 1000
"""Cases for which nothing is prepared, and cases whose number is not known."""


class Judge:
    """Gives verdicts on cases of one target and format; its executor owns the sandboxes, so close it.

    Without a format they are those that the target's backend mostly runs.
    """

    def __init__(
        self,
        target: Target,
        *,
        limits: Limits = _LIMITS,
        tolerance: Tolerance = AUTO,
        accept_invalid: bool = False,
        lower_levels: bool = True,
        format: str = "",
        watch: Watch | None = None,
    ) -> None:
        if target.complaint:
            raise UserError(f"target {str(target)[:200]!r}: comes with the case and is not trusted")
        self.target = target
        self.format = format = format or find_backend(target.backend).formats[0]
        self.limits = limits
        self.tolerance = tolerance.plain
        self.accept_invalid = accept_invalid
        self.lower_levels = lower_levels
        self.watch = watch
        self.executor = Executor(target, format=format, limits=limits, watch=watch)
        self.screen = self.tolerance if self.backend.keeps_tolerances else tolerance
        self._rulebook = Rulebook(self.executor, self.tolerance, self.screen, accept_invalid)
        self._asker = OptionalOracles(self._rulebook)
        graphs = self.backend.graphs_of(format)
        usual = graphs.asked if graphs is not None else ""
        asked = target.get(SETTING, usual)
        self._asked = find_asked(asked) if asked else ()
        self._siblings: dict[str, Judge] = {}

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def of_format(self, format: str) -> Judge:
        """The judge of the same target and settings for programs of a format."""
        if format == self.format:
            return self
        if format not in self._siblings:
            self._siblings[format] = Judge(
                self.target,
                limits=self.limits,
                tolerance=self.screen,
                accept_invalid=self.accept_invalid,
                lower_levels=self.lower_levels,
                format=format,
            )
        return self._siblings[format]

    def close(self) -> None:
        """End the sandboxes."""
        for sibling in self._siblings.values():
            sibling.close()
        self.executor.close()

    def cpu_seconds(self) -> float:
        """CPU time of all its sandboxes, those for programs of other formats included."""
        others = (sibling.cpu_seconds() for sibling in self._siblings.values())
        return self.executor.cpu_seconds() + sum(others)

    @property
    def start_seconds(self) -> float:
        """CPU seconds that starting the target's framework took; 0 before it has been started."""
        every = (self, *self._siblings.values())
        return max(judge.executor.start_seconds for judge in every)

    @property
    def backend(self) -> Backend:
        """The backend that runs the target's cases."""
        return self.executor.backend

    @property
    def configs(self) -> tuple[Config, ...]:
        """The ways to run a case, the un-optimised baseline first."""
        return self.executor.configs

    @property
    def release(self) -> str:
        """The version of the framework that runs the cases."""
        return self.executor.release

    def runs(self, case: Case, configs: tuple[Config, ...], **job_options: Any) -> tuple[Run, ...]:
        """Run the case under each configuration, without judging and without repair."""
        return self.executor.runs(case, configs, **job_options)

    def open(self, case: Case) -> Context:
        """Open a case for the rules."""
        return self._rulebook.open(Opened(case))

    def looks_together(self, format: str) -> bool:
        """Whether its target runs programs of a format that `look` takes, by their usual oracles."""
        return format in self.backend.batches and not self.target.get(SETTING)

    def look(self, cases: Sequence[Case], thorough: Collection[int] = ()) -> list[Screened | None]:
        """A first look at cases together, by the ways of a verdict; None for one that is not clean.

        Those at the places `thorough` are looked at by the lower levels, too.
        """
        limit = self.executor.cpu_limit
        is_quick = language_of(self.format).runs_quickly
        with self.executor.patiently(limit if is_quick else BATCH_TIMES * limit):
            looks = screen(self.executor, cases, self.configs[:2], self.configs[2:], thorough)
        return [
            look if look is not None and self._shows_nothing(Opened(case), look.runs) else None
            for case, look in zip(cases, looks, strict=True)
        ]

    def verdict(
        self, case: Case, *, fresh: bool = True, only: Config | None = None, baseline: Run | None = None
    ) -> Verdict:
        """Judge a case.

        A case that shows nothing costs its runs and one comparison. One that does is repaired, run again (in
        a new process with `fresh`) and taken through the rules; that second verdict counts. `only` compares
        the un-optimised baseline with that one configuration; what the baseline gives may be told. A case
        that takes more CPU time than a whole check may is undecided.
        """
        if case.earlier and case.format not in self.backend.calls_again:
            return not_repeated(f"{self.backend.name} runs such a program once")
        try:
            with allowed(self.limits.check_seconds):
                opened = Opened(taken_by_baseline(case, self.executor))
                case = opened.case
                if only is not None and only.asked_by:
                    return self._verdict_of_way(opened, only, fresh)
                if self.target.get(FACTOR) and (plain := self._plain(case)).is_ok:
                    return self._asked_verdict(opened, plain, fresh) or _harmless((plain,), (), {})
                verdict = self._compared(opened, fresh, only, baseline)
                fitting = without_refused(case, verdict, self.executor)
                return (
                    self.verdict(fitting, fresh=fresh, only=only, baseline=baseline) if fitting else verdict
                )
        except OutOfTime as error:
            return _out_of_time(self.limits, error.runs)

    def _compared(self, opened: Opened, fresh: bool, only: Config | None, baseline: Run | None) -> Verdict:
        """The verdict of one round of runs after the other, until one fails."""
        case = opened.case
        rounds = self._rounds(case, only)
        context: Context | None = None
        notes: tuple[str, ...] = ()
        marks: Mapping[Mark, str] = {}
        is_quick = not self.lower_levels and only is None
        while rounds:
            others = rounds.pop(0)
            known, configs = ((), (self.configs[0], *others)) if baseline is None else ((baseline,), others)
            try:
                runs = held((*known, *self.executor.run(job_of(case, configs, quick=is_quick))))
            except OutOfTime as error:
                if baseline is not None or not error.runs or error.runs[0].status is not Status.TIMEOUT:
                    raise
                runs = error.runs  # a baseline that hangs is judged alone
            suspect = is_suspect(case, runs, thorough=not is_quick)
            if suspect is False:
                return _set_aside(runs)
            is_clean = self._is_clean(opened, runs)
            if is_clean and suspect and baseline is None:
                context = self._rulebook.open(opened)
                found = self._rulebook.judge(case, runs, context, sceptical_rules())
                is_clean = found.outcome is Outcome.PASS
            if not is_clean:
                context = context or self._rulebook.open(opened)
                verdict = self._second_take(opened, context, runs, fresh, is_patient=only is None)
                if verdict.outcome is not Outcome.PASS:
                    return verdict
                runs, notes = verdict.runs, (*notes, *verdict.notes)
                marks = {**verdict.marks, **marks}
                if only is None and baseline is None:
                    # a difference that rounding explains at one level may be plain at a simpler one
                    rounds = [self._simpler(case)]
            baseline = runs[0]
            if rounds and is_short_of(sum(run.cpu_seconds for run in runs)):
                rounds, notes = [], (*notes, LEVELS_LEFT_OUT)
        asked = self._asked_verdict(opened, runs[0], fresh) if only is None else None
        return asked or _harmless(runs, tuple(dict.fromkeys(notes)), marks)

    def rewritten(self, case: Case, verdict: Verdict) -> Case | None:
        """The program that failed, as a case, if an oracle has rewritten this one; None otherwise."""
        asked_by = next((run.config.asked_by for run in verdict.runs if run.config.asked_by), "")
        return self._asker.rewritten(Opened(case), asked_by) if asked_by else None

    def _asked_verdict(self, opened: Opened, baseline: Run, fresh: bool) -> Verdict | None:
        """The first verdict of the oracles that were asked for by name."""
        verdicts = (self._asker.ask(oracle, opened, baseline, fresh) for oracle in self._asked)
        return next((verdict for verdict in verdicts if verdict is not None), None)

    def _shows_nothing(self, opened: Opened, runs: tuple[Run, ...]) -> bool:
        """Whether runs agree with each other, and no rule suspects them either."""
        return self._is_clean(opened, runs) and not is_suspect(opened.case, runs)

    def _verdict_of_way(self, opened: Opened, config: Config, fresh: bool) -> Verdict:
        """Judge the case by one configuration of an oracle that is asked for by name."""
        baseline = self._plain(opened.case)
        return self._asker.ask_way(opened, baseline, config, fresh) or _harmless((baseline,), (), {})

    def _plain(self, case: Case) -> Run:
        return self.executor.runs(case, self.configs[:1])[0]

    def explain(self, case: Case, verdict: Verdict) -> Verdict:
        """A wrong result with the first tensor that differs; it takes a few runs more.

        Where the target writes the program for another framework, a note says which of the two is wrong.
        """
        verdict = self._with_whose(case, verdict)
        wrong = verdict.wrong
        if wrong is None or wrong.located is not None or len(verdict.runs) < 2:
            return verdict
        try:
            found = self.divergence(case, verdict)
        except OutOfTime:
            return verdict
        if found is None:
            return verdict
        located = found.located(case.parsed)
        return replace(
            verdict, wrong=replace(wrong, first=located.tensor, operator=located.op, located=located)
        )

    def _with_whose(self, case: Case, verdict: Verdict) -> Verdict:
        """The verdict with a note of who is wrong, the target or what it has written a program for."""
        exported_with = self.backend.exported_with
        if exported_with is None or not is_exported(verdict):
            return verdict
        (independent,) = self.executor.runs(case, (exported_with(verdict.runs[-1].config),))
        return self._rulebook.noted(verdict, say_whose(verdict, independent, self.tolerance))

    def divergence(self, case: Case, verdict: Verdict) -> Divergence | None:
        """Find where the runs of a wrong result first differ; None if unknown."""
        if verdict.wrong is None or len(verdict.runs) < 2:
            return None
        return self.open(case).divergence(verdict.runs[-1].config, verdict.wrong.output)

    def _rounds(self, case: Case, only: Config | None) -> list[tuple[Config, ...]]:
        """List the rounds of comparison: all optimisations; if these pass, the lower levels."""
        if only is not None:
            return [(only,)]
        rounds = [self.configs[1:2]]
        if self.lower_levels and (simpler := self._simpler(case)):
            rounds.append(simpler)
        return rounds

    def _simpler(self, case: Case) -> tuple[Config, ...]:
        """The lower levels, and of a case with a sequence of passes the first way without that."""
        lower = tuple(way for way in without_twins(self.configs, case.passes) if way in self.configs[2:])
        if not case.passes or self.backend.sequences is None:
            return lower
        first = self.configs[1]
        return (*lower, unsequenced(first, f"{first.label} without its passes"))

    def _is_clean(self, opened: Opened, runs: tuple[Run, ...]) -> bool:
        case, expected = opened.case, runs[0].outputs
        if not all(run.is_ok for run in runs) or any(
            compare_outputs(expected, run.outputs, self.screen) for run in runs[1:]
        ):
            return False
        return not language_of(case.format).contradicts(case, expected)

    def _taking_longer(self, context: Context, first: tuple[Run, ...]) -> tuple[Run, ...]:
        """Run again in new processes, with time for what compiles long and ends, as this machine is now."""
        limit = self.executor.cpu_limit
        slow = [run.phase for run in first if run.status is Status.TIMEOUT]
        is_running = all(phase is Phase.EXECUTE for phase in slow)
        wanted = max(PATIENCE * limit, HANGING_TIMES * first[0].cpu_seconds)
        seconds = min(wanted, MOST_PATIENCE * limit) if is_running else MOST_PATIENCE * limit
        seconds = max(seconds, self.limits.cpu_seconds)
        extend(seconds + first[0].cpu_seconds)
        with self.executor.patiently(seconds):
            configs = tuple(run.config for run in first)
            runs = held(self.executor.run(replace(context.job, configs=configs), fresh=True))
        for text in _spent(runs, limit):
            context.notes.add(text)
        return runs

    def _second_take(
        self, opened: Opened, context: Context, first: tuple[Run, ...], fresh: bool, is_patient: bool
    ) -> Verdict:
        if opened.case.earlier and context.is_random:
            return not_repeated("the program draws other random numbers in each run")
        runs, executor = first, self.executor
        repaired = context.job.program is not opened.case.program
        context.earlier = () if repaired else first[:1]
        context.plain = first[0]
        no_second = executor.is_hurried or is_short_of(sum(run.cpu_seconds for run in first))
        is_hang = any(run.status is Status.TIMEOUT for run in first)
        if is_hang and is_patient and first[0].is_ok and not executor.is_hurried:
            if not self.lower_levels:
                hung = next(run for run in first if run.status is Status.TIMEOUT)
                return may_be_long("a quick check gives it no more time", hung, first)
            runs = self._taking_longer(context, first)
        elif not (is_hang and no_second) and (repaired or (fresh and not executor.forks)):
            configs = tuple(run.config for run in first)
            runs = held(executor.run(replace(context.job, configs=configs), fresh=fresh))
        was_slow = is_hang and all(run.is_ok for run in runs)
        changed = not was_slow and [run.status for run in runs] != [run.status for run in first]
        was_clean = self._is_clean(opened, first)
        if not repaired and not was_clean and not was_slow and (changed or self._is_clean(opened, runs)):
            context.notes.add(Mark.STATE_DEPENDENT.value, Mark.STATE_DEPENDENT)
        verdict = self._rulebook.judge(opened.case, runs, context)
        set_aside = (context.noise.notes,) if verdict.outcome is Outcome.PASS else ()
        return self._rulebook.noted(verdict, context.notes, *set_aside)


def _spent(runs: Sequence[Run], limit: float) -> Iterator[str]:
    """Say of each run that took longer than one may what it took."""
    for run in runs:
        if run.is_ok and run.cpu_seconds > limit:
            ran = run.execute_seconds
            took = f"{run.cpu_seconds - ran:.0f} CPU seconds to compile, {ran:.0f} to run"
            yield f"{run.config.label}: no hang, but {took}"


def _set_aside(runs: tuple[Run, ...]) -> Verdict:
    """No failure, by the word of a rule: what did not run had no need to."""
    refused = next((run for run in runs if not run.is_ok), None)
    if refused is None:
        return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs)
    symptom = symptom_of_run(Outcome.INVALID, refused)
    return Verdict(Outcome.INVALID, refused.phase, f"refused: {refused.message[:200]}", symptom, runs)


def _out_of_time(limits: Limits, runs: tuple[Run, ...]) -> Verdict:
    """Undecided: the CPU time that a whole check may take is spent."""
    seen = f"; {runs[-1].config.label}: {runs[-1].status} in {runs[-1].phase}" if runs else ""
    phase = runs[-1].phase if runs else Phase.IMPORT
    title = (
        f"undecided: a whole check may take {limits.check_seconds:g} CPU seconds, and they are spent{seen};"
        " raise --timeout to know more"
    )
    mark = Mark.OUT_OF_TIME
    symptom = Symptom(Outcome.UNDECIDED, phase, mark.value)
    return Verdict(Outcome.UNDECIDED, phase, title, symptom, runs, (mark.value,), marks={mark: mark.value})


def _harmless(runs: tuple[Run, ...], notes: tuple[str, ...], marks: Mapping[Mark, str]) -> Verdict:
    """The verdict if no rule objects: pass, a difference behind a NaN, or undecided."""
    if Mark.NONFINITE in marks:
        symptom = Symptom(Outcome.NONFINITE, Phase.COMPARE, "nonfinite")
        title = "differs only in what hangs on a NaN or an infinity"
        return Verdict(Outcome.NONFINITE, Phase.COMPARE, title, symptom, runs, notes, marks=marks)
    if Mark.UNDECIDED in marks:
        symptom, title = Symptom(Outcome.UNDECIDED, Phase.COMPARE, "undecided"), marks[Mark.UNDECIDED]
        return Verdict(Outcome.UNDECIDED, Phase.COMPARE, title, symptom, runs, notes, marks=marks)
    return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs, notes=notes, marks=marks)


@contextmanager
def in_short(cases: int = 1) -> Iterator[None]:
    """For a few cases no headers are compiled ahead: that takes seven CPU seconds, and saves two a case."""
    if cases > FEW:
        yield
        return
    earlier = os.environ.get(HEADERS)
    os.environ.setdefault(HEADERS, "0")
    try:
        yield
    finally:
        if earlier is None:
            del os.environ[HEADERS]
