"""One reduction under way: the showing of the failure, the rounds, the confirmations at the end."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from corpus.case import Case
from corpus.formats import find_format
from oracles.judge import STATE_DEPENDENT
from oracles.naming.components import signature
from oracles.probes.record import record
from oracles.run import Config
from oracles.sequence import misplaced
from oracles.verdict import Outcome, Verdict
from reducer.engine.gate import Budget, BudgetSpent, Gate, Predicate
from reducer.engine.journal import Answer, Journal
from reducer.engine.patience import Patience
from reducer.engine.predicates import Both, Command, JudgePool, SameSymptom, Silent
from reducer.engine.rounds import Engine
from reducer.engine.steadiness import Refusals
from reducer.evidence import read_hints
from reducer.hiding import hide, inspect
from reducer.move import Hints
from reducer.moves import all_moves
from reducer.options import DoesNotFail, Options, Progress
from reducer.pass_sets import PassSet, failing_config, find_pass_set
from reducer.result import Reduction
from reducer.subject.divergence import Divergence, find_divergence
from reducer.subject.onnx import Subject
from reducer.subject.order import size
from reducer.subjects import is_valid, kept_of, learn_facts, named_by_values, open_subject
from reducer.trace import Point

FLAKY_RUNS = 10
"""How often a failure that does not show every time is run to learn its rate."""

RARE_RUNS = 40
"""The same for one that showed in a single run of those: what shows more seldom is not reduced."""

CONFIRMATIONS = 3
"""How often the result of a command must fail again."""

MORE_CONFIRMATIONS = 5
"""The same where answers contradict each other; a failure that shows in 60 % of runs seldom does."""


@dataclass
class _Session:
    """One reduction in a folder, from the first check to the written result."""

    case: Case
    out: Path
    options: Options
    pool: JudgePool
    on_progress: Callable[[Progress], None]
    passes: PassSet | None = None
    has_ended: bool = False
    words_left: tuple[str, ...] | None = None
    confirmations: int = 0
    refusals: Refusals = field(default_factory=Refusals)

    def run(self, journal: Journal, on_other: Callable[[Case, Verdict], None]) -> Reduction:
        started = time.monotonic()
        verdict = self._first_verdict()
        subject = open_subject(self.case, self.pool)
        gate = self._gate(self._predicate(verdict, on_other), journal, started)
        try:
            gate.begin(subject)
            engine = self._engine(gate, subject, verdict)
            self._show(gate, engine, verdict)
            try:
                with suppress(BudgetSpent):
                    self._shrink(gate, engine)
                if self.options.private:
                    self._hide(gate, engine)
                with suppress(BudgetSpent):
                    self.passes = self._passes(gate, verdict)
                    self.has_ended = True
            finally:
                result = self._result(gate, engine, verdict, time.monotonic() - started)
                if result.is_minimal:
                    gate.close()
                    journal.finish(gate.used)
                if not self.options.private or self.words_left is not None:
                    result.save(self.out)
        finally:
            gate.close()
        return result

    def _show(self, gate: Gate, engine: Engine, verdict: Verdict | None) -> None:
        """The failure shows; where it does not every time, decisions will take several runs."""
        subject = self.subject
        self.best, self.rate, self.curve = subject, 1.0, list[Point]()
        is_suspect = verdict is not None and STATE_DEPENDENT in verdict.notes
        shows = gate(lambda: subject, engine.opening(subject), exact=True)
        if not shows or is_suspect:
            self._measure_rate(gate, subject, int(shows))

    def _measure_rate(self, gate: Gate, subject: Subject, shown: int) -> None:
        """After a first evaluation that showed the failure, or not; one that it alone showed takes more."""
        for runs in (FLAKY_RUNS, RARE_RUNS):
            with suppress(BudgetSpent):
                self.rate = (shown + gate.measure(subject, runs) * runs) / (runs + 1)
            if not 0 < self.rate * (runs + 1) < 2:
                break
        if self.rate == 0:
            raise DoesNotFail
        gate.distrust(self.rate, runs + 1)

    def _shrink(self, gate: Gate, engine: Engine) -> None:
        """Reduce; where the result does not fail again the failure is flaky, and the search starts anew."""
        self._run_engine(engine)
        self.best = self.best.embedded()
        times, before = self._confirmations(gate), gate.checks
        again = gate.measure(self.best, times) if gate.steadiness.is_steady else 1.0
        self.confirmations = gate.checks - before
        if again < 1:
            self.best = self.subject
            self._measure_rate(gate, self.subject, 1)
            if self.rate == 1:  # then it is what was left that fails not every time
                gate.distrust((1 + again * times) / (1 + times), 1 + times)
            engine.steps.clear()
            engine.is_minimal = False
            self.curve.clear()
            self._run_engine(engine)

    def _confirmations(self, gate: Gate) -> int:
        """How often the result is to be shown again: the target says itself when a failure is not steady."""
        if self.options.check is None and not gate.is_suspect:
            return 1
        is_doubtful = gate.is_suspect or self.refusals.contradict(self.best)
        return MORE_CONFIRMATIONS if is_doubtful else CONFIRMATIONS

    def _hide(self, gate: Gate, engine: Engine) -> None:
        """Whatever the budget; before this has ended nothing may be written but the journal."""
        gate.budget = Budget()
        self.best = hide(engine, self.best.embedded())
        self.words_left = inspect(self.case, self.best.case(self.case))

    def _run_engine(self, engine: Engine) -> None:
        if engine.gate.steadiness.is_too_rare:
            return
        for better in engine.run(self.subject):
            self.best = better

    def _first_verdict(self) -> Verdict | None:
        """What the target shows; None where a command decides."""
        if self.options.check is not None:
            return None
        with self.pool.one() as judge:
            verdict = judge.verdict(self.case)
        if verdict.symptom is None:
            raise DoesNotFail
        return verdict

    def _predicate(self, verdict: Verdict | None, on_other: Callable[[Case, Verdict], None]) -> Predicate:
        options = self.options
        predicate: Predicate
        if verdict is not None and verdict.symptom is not None:
            with self.pool.one() as judge:
                self.only = failing_config(verdict, judge)
            patience = Patience(options.limits.wall_seconds)
            predicate = SameSymptom(self.pool, verdict.symptom, self.only, on_other, patience)
        else:
            predicate = self._command(options.check or "", options.check_exit)
        if options.also is not None:
            predicate = Both(predicate, self._command(options.also, 0))
        if options.private:
            predicate = Silent(predicate)
        return predicate

    def _command(self, line: str, wanted: int) -> Command:
        return Command(line, wanted, self.options.timeout, Patience(self.options.timeout))

    def _gate(self, predicate: Predicate, journal: Journal, started: float) -> Gate:
        options = self.options
        deadline = started + 60 * options.minutes if options.minutes is not None else float("inf")
        most = options.max_checks if options.max_checks is not None else float("inf")
        return Gate(
            predicate,
            self.case,
            self._is_valid,
            journal,
            Budget(deadline, most),
            options.jobs,
            on_check=self._on_check,
        )

    def _is_valid(self, subject: Subject) -> bool:
        return is_valid(subject) and not misplaced(subject.passes, self.options.target)

    def _engine(self, gate: Gate, subject: Subject, verdict: Verdict | None) -> Engine:
        self.subject, culprit = self._learn(subject)
        hints = read_hints(verdict, culprit)
        if verdict is not None and verdict.outcome is Outcome.MISMATCH and self.only is not None:
            hints = self._hints_of_values(hints, self.only)
        self.engine = Engine(gate, all_moves(type(subject)), hints, lambda found: self._learn(found)[0])
        return self.engine

    def _hints_of_values(self, hints: Hints, config: Config) -> Hints:
        """Where values part, as well: told by nodes, or by what the optimiser made of the program."""
        with self.pool.one() as judge:
            named = named_by_values(self.subject, judge, self.case, config)
        return replace(hints, nodes=named or hints.nodes, divergence=self._divergence(config))

    def _divergence(self, config: Config) -> Divergence:
        """Where values part, by a run of the program as the optimiser leaves it."""
        with self.pool.one() as judge:
            case = self.subject.case(self.case)
            optimised = judge.optimised(case, config)
            if optimised is None:
                return Divergence()
            recording = record(judge, replace(case, program=optimised.SerializeToString()))
            return find_divergence(self.subject, optimised, recording.values, judge.screen)

    def _learn(self, subject: Subject) -> tuple[Subject, str]:
        with self.pool.one() as judge:
            return learn_facts(subject, judge, self.case)

    def _on_check(self, gate: Gate, subject: Subject, answer: Answer) -> None:
        if answer.interesting and hasattr(self, "best") and size(subject) < size(self.best):
            self.best = subject
            self.curve.append(Point(gate.checks, size(subject)[0], size(subject)[-1]))
        if not answer.interesting:
            self.refusals.add(subject)
        move = self.engine.move or "show the failure"
        nodes, *_, program_bytes = size(subject)
        self.on_progress(Progress(move, gate.checks, nodes, program_bytes, answer.interesting))

    def _result(self, gate: Gate, engine: Engine, verdict: Verdict | None, seconds: float) -> Reduction:
        case = self.best.case(self.case)
        found = find_format(case.format)
        after = found.measure(found.parse(case.program))
        if verdict is not None:
            verdict = self._last_verdict(case, verdict)
        minimal = self.passes.minimal if self.passes else ()
        return Reduction(
            case=case,
            verdict=verdict,
            passes=self.passes,
            signature=signature(verdict, after, case, minimal) if verdict is not None else None,
            before=found.measure(found.parse(self.case.program)),
            after=after,
            checks=gate.checks,
            sweep_checks=gate.checks - max((step.check for step in engine.steps), default=1),
            confirmations=self.confirmations,
            cached=gate.cached,
            seconds=seconds,
            rate=self.rate,
            runs_per_decision=gate.most_repeats,
            is_minimal=engine.is_minimal and self.has_ended,
            moves=tuple(move.name for move in engine.moves),
            steps=tuple(engine.steps),
            curve=tuple(self.curve),
            kept=() if self.options.private else kept_of(self.case, self.best),
            words_left=self.words_left,
            timeouts=gate.timeouts,
        )

    def _last_verdict(self, case: Case, first: Verdict) -> Verdict:
        """What the result shows; where it does not show even in several runs, what the original did."""
        with self.pool.one() as judge:
            verdicts = (judge.verdict(case) for _ in range(FLAKY_RUNS))
            return next((verdict for verdict in verdicts if verdict.symptom is not None), first)

    def _passes(self, gate: Gate, verdict: Verdict | None) -> PassSet | None:
        """The minimal pass set of the result; none of what a command decides."""
        if verdict is None:
            return None
        case = self.best.case(self.case)

        def ask(key: str, question: Callable[[], bool]) -> bool:
            digest = hashlib.sha256(key.encode()).hexdigest()
            gate.used.append(digest)
            if digest not in gate.journal.answers:
                gate.budget.spend(0)  # the minutes only
                gate.journal.add(digest, Answer(question()))
            return gate.journal.answers[digest].interesting

        with self.pool.one() as judge:
            return find_pass_set(judge, case, judge.verdict(case), ask, gate.steadiness.repeats)
