"""One reduction in a folder: what it takes is put together, run, and its result written."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from oracles.abilities import language_of as judged_as
from oracles.naming import signature
from oracles.probes.memory import with_misuse
from oracles.sandbox.executor import misplaced
from oracles.verdict import Config, Mark, Outcome, Verdict
from reducer.course import FLAKY_RUNS, DoesNotFail, Options, Progress, ReductionRun
from reducer.engine.decider import Allowance, AllowanceSpent, Decider, Predicate
from reducer.engine.journal import Journal
from reducer.engine.predicates import (
    AdaptiveTimeout,
    Both,
    Bounds,
    Command,
    CuredWithout,
    JudgePool,
    MemoryFault,
    PlainRuns,
    SameMisuse,
    SameRewrite,
    SameSymptom,
    by_turns,
    memory_fault,
)
from reducer.engine.rounds import Engine, Gate
from reducer.language import Language, language_of
from reducer.move import Hints, needed_operator, read_hints
from reducer.moves import all_moves
from reducer.pass_sets import core_at, failing_config, find_pass_set, is_of_passes, puts_in_alike
from reducer.result import Reduction, finished
from reducer.subject.base import Subject


@dataclass(frozen=True)
class Session:
    """One reduction in a folder, from the first verdict to the written result.

    `on_other` is given the candidates that showed another failure. A `quick` one has candidates judged where
    that is cheap, and starts anew where the result does not show in full. So does one whose result is another
    bug of passes than the original: then the original's, `held`, must be at fault in every candidate, and
    replace no operators but those of `core`, if these passes replace others in the result. With
    `guarded` a misuse of memory is kept that guarded runs show; if the result then shows nothing without
    guard, it starts anew as well.
    """

    case: Case
    out: Path
    options: Options
    pool: JudgePool
    on_progress: Callable[[Progress], None]
    on_other: Callable[[Case, Verdict], None]
    quick: bool = True
    held: tuple[str, ...] = ()
    core: str = ""
    guarded: bool = True

    @property
    def _language(self) -> Language[Any]:
        return language_of(self.case.format)

    def run(self, journal: Journal) -> Reduction:
        """Reduce and write the result, whatever ends it early; raises `DoesNotFail`.

        The best so far is written before anything else is made of it. A result that does not fail now, though
        the journal says so, is dropped with the journal's answers, and everything is asked anew.
        """
        started, begun = time.monotonic(), self.options.clock()
        proven = self._case_of_a_finished_one()
        verdict = self._first_verdict()
        fault = self._memory_fault(verdict)
        subject = self._language.open(self.case, self.pool)
        only = self._failing_config(verdict)
        predicate, bounds = self._predicate(verdict, only, fault), self._bounds(verdict, subject)
        gate = self._gate(predicate, journal, begun, bounds)
        course = self._course_of(gate, subject, verdict, Hints())
        try:
            with suppress(AllowanceSpent):
                gate.begin(subject)
                course = self._course(gate, subject, verdict, only)
                course.show()
            course.run()
            self._save(course, verdict, started, is_proven=False)
        except DoesNotFail:
            gate.decider.close()
            raise
        except BaseException:  # one that came while it was written, too
            self._save(course, verdict, started, is_proven=False)
            gate.decider.close()
            raise
        try:
            shown = self._last_verdict(course, verdict)
            if anew := self._anew(course, fault, shown):
                journal.forget()
                return anew.run(journal)
            if self._is_proven(course, shown, proven):
                return self._finish(course, shown, verdict, started, journal)
        finally:
            gate.decider.close()
        journal.forget()
        return self.run(journal)

    def _anew(self, course: ReductionRun, fault: MemoryFault | None, shown: Verdict | None) -> Session | None:
        """The session that starts anew where the result shows another failure; None where it does not."""
        if fault is None:
            held = self._lost_passes(course) if not self._is_misled(course, shown) else ()
            if held:
                return replace(self, held=held)
            if course.passes is not None and (core := self._lost_core(course, course.passes.minimal)):
                return replace(self, held=course.passes.minimal, core=core)
        elif self.guarded and fault.words and shown is None:
            return replace(self, guarded=False)
        elif shown is not None and fault.shows_as(shown.symptom):
            course.verdict = shown  # one fault, whichever way it ends
            course.rate = self._rate(course.best.case(self.case), fault)
        return replace(self, quick=False) if self._is_misled(course, shown) else None

    def _rate(self, case: Case, fault: MemoryFault) -> float:
        """The share of runs without guard in which a memory fault shows."""
        with self.pool.one() as judge:
            shown = sum(fault.shows_as(judge.verdict(case).symptom) for _ in range(FLAKY_RUNS))
        return max(shown, 1) / FLAKY_RUNS

    def _finish(
        self,
        course: ReductionRun,
        shown: Verdict | None,
        first: Verdict | None,
        started: float,
        journal: Journal,
    ) -> Reduction:
        """Write the result with what it shows, and leave in the journal what led to it."""
        course.gate.decider.close()
        if course.is_minimal:
            journal.finish(course.gate.decider.used)
        done = self._save(course, by_turns(shown or first, course.rate), started)
        return replace(done, is_shown=shown is not None)

    def _save(
        self, course: ReductionRun, verdict: Verdict | None, started: float, is_proven: bool = True
    ) -> Reduction:
        """Write the folder as it stands; where something is to be hidden, only once it is.

        What is not proven yet is not called minimal, so that a run after a kill goes on from there.
        """
        result = self._result(course, verdict, time.monotonic() - started)
        result = replace(result, is_minimal=result.is_minimal and is_proven)
        if not self.options.private or course.words_left is not None:
            result.save(self.out)
        return result

    def _is_misled(self, course: ReductionRun, shown: Verdict | None) -> bool:
        """Whether quick answers led to a case that does not show the failure in full."""
        first = course.verdict
        if not self._is_quick(first) or first is None:
            return False
        return shown is None or shown.symptom != first.symptom

    def _lost_passes(self, course: ReductionRun) -> tuple[str, ...]:
        """The original's passes, if those of the result are not at fault in the original; else none."""
        first, found, decider = course.verdict, course.passes, course.gate.decider
        if self.held or first is None or found is None or not course.is_minimal:
            return ()
        with self.pool.one() as judge, suppress(AllowanceSpent):
            repeats = decider.steadiness.repeats
            if not is_of_passes(judge, self.case, first, found.minimal, course.ask, repeats):
                own = find_pass_set(judge, self.case, first, course.ask, repeats)
                return own.cures or own.minimal if own is not None else ()
        return ()

    def _lost_core(self, course: ReductionRun, passes: tuple[str, ...]) -> str:
        """What the passes replace in the original, if it is something else in the result; else empty."""
        if self.core or course.verdict is None or not (passes and course.is_minimal):
            return ""
        with self.pool.one() as judge:
            config = failing_config(course.verdict, judge)
            cases = (course.best.case(self.case), self.case)
            found, own = (core_at(each, config, passes, judge) if config else "" for each in cases)
        return "" if puts_in_alike(found, own) else own

    def _is_quick(self, first: Verdict | None) -> bool:
        """Whether candidates are judged quickly: none whose failure is one of time or of memory."""
        slow = (Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.PERF)
        is_cheap = self.quick and judged_as(self.case.format).runs_quickly
        return is_cheap and first is not None and first.outcome not in slow

    def _is_proven(self, course: ReductionRun, shown: Verdict | None, proven: str | None) -> bool:
        """Whether the result fails by a run of now, asked outside of the journal.

        Only if answers of an earlier run counted can it be otherwise.
        """
        decider, first = course.gate.decider, course.verdict
        if not decider.journal.replayed:
            return True
        if first is not None:
            return shown is not None and shown.symptom == first.symptom
        case = course.best.case(self.case)
        return case.relocated.case_id == proven or any(
            decider.predicate(case).interesting for _ in range(FLAKY_RUNS)
        )

    def _case_of_a_finished_one(self) -> str | None:
        """The case that a finished reduction left in the folder; None if none did."""
        with suppress(UserError):
            return Case.load(self.out).case_id if finished(self.out) is not None else None
        return None

    def _first_verdict(self) -> Verdict | None:
        """The target's verdict on the original; None if a command decides."""
        if self.options.check is not None:
            return None
        with self.pool.one() as judge:
            verdict = judge.verdict(self.case).must_be_of_a_program(self.case.origin or "the case")
        if verdict.symptom is None:
            raise DoesNotFail
        if Mark.OUT_OF_TIME in verdict.marks:
            raise UserError(f"{self.case.origin or 'the case'}: {verdict.title}")
        return verdict

    def _memory_fault(self, verdict: Verdict | None) -> MemoryFault | None:
        """The memory fault behind the first verdict, if it is one."""
        if verdict is None:
            return None
        with self.pool.one() as judge:
            return memory_fault(judge, self.case, verdict)

    def _failing_config(self, verdict: Verdict | None) -> Config | None:
        """The one configuration that is to fail again; None if each may, or a command decides."""
        if verdict is None:
            return None
        with self.pool.one() as judge:
            return failing_config(verdict, judge)

    def _predicate(
        self, verdict: Verdict | None, only: Config | None, fault: MemoryFault | None
    ) -> Predicate:
        options = self.options
        predicate: Predicate
        if verdict is not None and fault is not None and fault.words and self.guarded:
            predicate = SameMisuse.of(self.pool, verdict, fault)
        elif verdict is not None and verdict.symptom is not None:
            is_crash = verdict.outcome is Outcome.CRASH
            predicate = SameSymptom(
                self.pool,
                verdict.symptom,
                only,
                self.on_other,
                AdaptiveTimeout(options.limits.wall_seconds),
                needs_baseline=is_crash and len(verdict.runs) > 1 and verdict.runs[0].is_ok,
                quick=self._is_quick(verdict),
                also=fault.shows_as if fault is not None else lambda symptom: False,
            )
            predicate = self._plainer(predicate)
            if self.held and only is not None:
                predicate = Both(predicate, CuredWithout(self.pool, verdict.symptom, only, self.held))
            if self.core and only is not None:
                predicate = Both(predicate, SameRewrite(self.pool, only, self.held, self.core))
        else:
            predicate = self._command(options.check or "", options.check_exit)
        if options.also is not None:
            predicate = Both(predicate, self._command(options.also, 0))
        if options.private:  # the journal tells nothing of what was seen
            return lambda case: replace(predicate(case), symptom="")
        return predicate

    def _plainer(self, predicate: SameSymptom) -> SameSymptom:
        """The predicate with LLVM left out of its quick answers, if the case fails without it as well."""
        if not predicate.quick:
            return predicate
        plainly = replace(predicate, plainly=True)
        return plainly if plainly(self.case).interesting else predicate

    def _command(self, line: str, wanted: int) -> Command:
        def printed(case: Case) -> Mapping[str, bytes]:
            with self.pool.one() as judge:
                return self._language.printed(case, judge)

        seconds = self.options.timeout
        return Command(line, wanted, seconds, AdaptiveTimeout(seconds), printed)

    def _bounds(self, verdict: Verdict | None, subject: Subject) -> Bounds:
        """The bounds of every candidate, as far as the original keeps them."""
        if not self._language.is_bounded:
            return Bounds()
        plain = PlainRuns(self.pool, self.case)
        asks_plain = not self.options.accept_invalid and plain.ends_well(subject)
        return Bounds(needed_operator(verdict, subject), plain if asks_plain else None)

    def _gate(self, predicate: Predicate, journal: Journal, begun: float, bounds: Bounds) -> Gate:
        options = self.options
        deadline = begun + 60 * options.minutes if options.minutes is not None else float("inf")
        most = options.max_checks if options.max_checks is not None else float("inf")
        decider = Decider(predicate, journal, Allowance(deadline, most, options.clock), options.jobs)
        return Gate(decider, self.case, partial(self._is_valid, bounds))

    def _is_valid(self, bounds: Bounds, subject: Subject) -> bool:
        target, format = self.options.target, self.case.format
        is_whole = subject.is_valid and not misplaced(subject.passes, target, format, subject.told_to_passes)
        return is_whole and bounds.hold(subject)

    def _course(
        self, gate: Gate, subject: Subject, verdict: Verdict | None, only: Config | None
    ) -> ReductionRun:
        subject, culprit = self._learn(subject)
        hints = replace(read_hints(verdict, culprit), is_thorough=self.options.thorough)
        if verdict is not None and verdict.outcome is Outcome.MISMATCH and only is not None:
            hints = self._hints_of_values(subject, hints, verdict, only)
        return self._course_of(gate, subject, verdict, hints)

    def _course_of(self, gate: Gate, subject: Subject, verdict: Verdict | None, hints: Hints) -> ReductionRun:
        engine = Engine(gate, all_moves(self._language.subject), hints, lambda found: self._learn(found)[0])
        course = ReductionRun(self.case, self.options, self.pool, verdict, engine, subject, self.on_progress)
        gate.on_check = course.on_check
        return course

    def _hints_of_values(self, subject: Subject, hints: Hints, verdict: Verdict, config: Config) -> Hints:
        """Add the place where values differ: by node, or by the optimised program."""
        with self.pool.one() as judge:
            named = self._language.named_by_values(subject, judge, self.case, config)
            first = judge.divergence(self.case, verdict)
            divergence = self._language.divergence(subject, judge, self.case, config)
        named = named or ((first.name,) if first is not None else ())
        return replace(hints, nodes=named or hints.nodes, divergence=divergence)

    def _learn(self, subject: Subject) -> tuple[Subject, str]:
        with self.pool.one() as judge:
            learned: tuple[Subject, str] = self._language.learn(subject, judge, self.case)
            return learned

    def _result(self, course: ReductionRun, verdict: Verdict | None, seconds: float) -> Reduction:
        """The result as it stands; `verdict` is what the best case shows."""
        engine, decider = course.engine, course.gate.decider
        case = course.best.case(self.case)
        after = case.measure
        minimal = course.passes.minimal if course.passes else ()
        return Reduction(
            case=case,
            verdict=verdict,
            passes=course.passes,
            signature=signature(verdict, after, case, minimal) if verdict is not None else None,
            before=self.case.measure,
            after=after,
            checks=decider.checks,
            sweep_checks=decider.checks - max((step.check for step in engine.steps), default=1),
            confirmations=course.confirmations,
            cached=course.gate.cached,
            seconds=seconds,
            rate=course.rate,
            runs_per_decision=decider.most_repeats,
            is_minimal=course.is_minimal,
            moves=tuple(move.name for move in engine.moves),
            steps=tuple(engine.steps),
            curve=tuple(course.curve),
            kept=() if self.options.private else self._language.kept(self.case, course.best),
            words_left=course.words_left,
            timeouts=decider.timeouts,
            asked=dict(engine.asked),
            cut_short=tuple(sorted(engine.cut_short)),
            subsets=self._settled_subsets(course) if course.is_minimal else (0, 0),
            release=course.release,
            is_asked_again=course.is_asked_again,
        )

    def _settled_subsets(self, course: ReductionRun) -> tuple[int, int]:
        """Count the smaller subsets of the remaining nodes, and those that are known not to fail."""
        settled = [all(map(course.gate.is_settled, each)) for each in self._language.subsets(course.best)]
        return sum(settled), len(settled)

    def _last_verdict(self, course: ReductionRun, first: Verdict | None) -> Verdict | None:
        """The verdict on the result; None if several runs do not show it, or a command decides."""
        if first is None:
            return None
        case, known = course.best.case(self.case), course.last
        with self.pool.one() as judge:
            asked = (judge.verdict(case) for _ in range(FLAKY_RUNS))
            verdicts = chain(() if known is None else (known,), asked)
            found = next((verdict for verdict in verdicts if verdict.symptom is not None), None)
            return with_misuse(judge.executor, case, found) if found is not None else None
