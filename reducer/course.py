"""The course of one reduction: what is asked for, how the failure shows, the rounds, the confirmations."""

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from oracles.judge import Judge
from oracles.numerics.compare import AUTO, Tolerance
from oracles.verdict import Limits, Mark, Verdict
from reducer.engine.decider import Allowance, AllowanceSpent
from reducer.engine.journal import Answer
from reducer.engine.predicates import JudgePool
from reducer.engine.rounds import Engine, Gate
from reducer.engine.speculation import MEASURED
from reducer.language import language_of
from reducer.move import Hints
from reducer.moves import all_moves, anonymizing_moves, plain_moves
from reducer.pass_sets import PassSet, find_pass_set
from reducer.private_remains import words_left
from reducer.private_values import holds_run
from reducer.result import Point
from reducer.subject.base import Subject
from reducer.subject.order import size


class DoesNotFail(Exception):
    """The case that was to be reduced does not fail (any more)."""


@dataclass(frozen=True)
class Options:
    """The settings of a reduction: the target or the command that judges, and the bounds.

    `check` is a shell command; its exit code `check_exit` means interesting. Without a command the target's
    symptom is kept. `also` is a second command that must exit with 0. `private` allows nothing of the
    original in the result. `thorough` asks for every subset of few nodes. `clock` is what `minutes` are told
    by, in seconds.
    """

    target: Target = field(default_factory=lambda: Target("ort"))
    check: str | None = None
    check_exit: int = 0
    also: str | None = None
    jobs: int = 1
    minutes: float | None = None
    max_checks: int | None = None
    limits: Limits = field(default_factory=Limits)
    tolerance: Tolerance = AUTO
    accept_invalid: bool = False
    timeout: float = 300.0
    private: bool = False
    thorough: bool = False
    clock: Callable[[], float] = time.monotonic

    def header(self, case: Case) -> Mapping[str, Any]:
        """The settings that must be equal for a journal to be reused."""
        names = ("check", "check_exit", "also", "accept_invalid")
        settings = {name: getattr(self, name) for name in names}
        settings["tolerance"] = list(astuple(self.tolerance))
        if self.thorough:
            settings["thorough"] = True
        if self.private:
            hidden = {name: _digest(settings[name]) for name in ("check", "also") if settings[name]}
            settings |= {"private": True, **hidden}
        return {
            "case_id": case.case_id,
            "target": str(self.target),
            "moves": [move.name for move in all_moves(language_of(case.format).subject)],
            **settings,
        }

    def judge(self, format: str) -> Judge:
        """A judge of the target with these limits and tolerances."""
        return Judge(
            self.target,
            format=format,
            limits=self.limits,
            tolerance=self.tolerance,
            accept_invalid=self.accept_invalid,
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Progress:
    """The state of a reduction after a check, for the live line."""

    move: str
    checks: int
    nodes: int
    bytes: int


MOST_ROUNDS = 3
LEAST_NODES = 4
"""Of fewer nodes nearly every subset was asked for."""


def hide(engine: Engine, subject: Subject) -> Subject:
    """The subject after the moves that hide; after a full reduction, reduced again where they changed it."""
    hider = Engine(engine.gate, anonymizing_moves(), engine.hints, engine.learn, steps=engine.steps)
    for _ in range(MOST_ROUNDS):
        hidden = hider.run_once(subject)
        if hidden is subject or not engine.is_minimal:
            return hidden
        engine.is_minimal = False
        subject = hidden
        for better in engine.run(hidden):
            subject = better
    return subject


def inspect(original: Case, case: Case) -> tuple[str, ...]:
    """The words of the original that the failure needs; `UserError` where it needs a run of its values."""
    if case.external or holds_run(original, case):
        raise UserError(
            "reduce --private: the failure needs a run of eight values of the original, so that no result was"
            " written; reduce without --private"
        )
    return words_left(original, case)


FLAKY_RUNS = 10
"""How often a failure that does not show every time is run to learn its rate."""

RARE_RUNS = 40
"""The same for one that showed in a single run of those: what shows more seldom is not reduced."""

CONFIRMATIONS = 3
"""How often the result of a command must fail again."""

MORE_CONFIRMATIONS = 5
"""The same if answers contradict each other; a failure that shows in 60 % of runs seldom does."""


@dataclass
class ReductionRun:
    """The state of a reduction in progress.

    `subject` is the original as its engine sees it, `best` the smallest failing one so far. `rate` is the
    share of runs in which the failure shows. `passes` is the minimal pass set, which the reducer looks for
    last. `has_ended` says that the search has ended, `is_asked_again` that so has a second one, in the other
    order. `words_left` are the original's words in a result that
    must hide the original. `last` is the verdict on the result for which the pass set was looked for.
    """

    case: Case
    options: Options
    pool: JudgePool
    verdict: Verdict | None
    engine: Engine
    subject: Subject
    on_progress: Callable[[Progress], None]
    best: Subject = field(init=False)
    rate: float = 1.0
    curve: list[Point] = field(default_factory=list)
    confirmations: int = 0
    passes: PassSet | None = None
    release: str = ""
    has_ended: bool = False
    is_asked_again: bool = False
    words_left: tuple[str, ...] | None = None
    last: Verdict | None = None

    def __post_init__(self) -> None:
        self.best = self.subject

    @property
    def gate(self) -> Gate:
        """The gate that every candidate must pass."""
        return self.engine.gate

    @property
    def is_minimal(self) -> bool:
        """Whether a whole round of every move found nothing more, and the pass set was looked for."""
        return self.engine.is_minimal and self.has_ended

    def run(self) -> None:
        """Shrink, hide and find the pass set, each as far as the allowance goes; raises `DoesNotFail`.

        What was found stands in the fields, whatever ended the run.
        """
        with suppress(AllowanceSpent):
            self._shrink()
            self._make_plain()
        if self.options.private:
            self._hide()
        with suppress(AllowanceSpent):
            self.passes = self._pass_set()
            self.has_ended = True

    def show(self) -> None:
        """Show the failure; if it does not show every time, decisions will take several runs.

        Raises `DoesNotFail`, and `AllowanceSpent`.
        """
        subject = self.subject
        is_suspect = self.verdict is not None and Mark.STATE_DEPENDENT in self.verdict.marks
        shows = self.gate(lambda: subject, self.engine.opening(subject), exact=True)
        if not shows or is_suspect:
            self._measure_rate(int(shows))

    def on_check(self, gate: Gate, subject: Subject, answer: Answer) -> None:
        """Note one answer of the gate, and tell of it."""
        checks = gate.decider.checks
        if answer.interesting and size(subject) < size(self.best):
            self.best = subject
            self.curve.append(Point(checks, size(subject)[0], size(subject)[-1]))
        move = self.engine.move or "show the failure"
        nodes, *_, program_bytes = size(subject)
        self.on_progress(Progress(move, checks, nodes, program_bytes))

    def _measure_rate(self, shown: int) -> None:
        """After a first evaluation that showed the failure, or not; one that it alone showed takes more."""
        for runs in (FLAKY_RUNS, RARE_RUNS):
            with suppress(AllowanceSpent):
                self.rate = (shown + self.gate.measure(self.subject, runs) * runs) / (runs + 1)
            if not 0 < self.rate * (runs + 1) < 2:
                break
        if self.rate == 0:
            raise DoesNotFail
        self.gate.distrust(self.rate, runs + 1)

    def _shrink(self) -> None:
        """Reduce; if the result does not fail again the failure is flaky, and the search starts anew."""
        self._run_engine()
        self.best = self.best.embedded()
        decider = self.gate.decider
        times, before = self._times_to_confirm(), decider.checks
        again = self.gate.measure(self.best, times) if decider.steadiness.is_steady else 1.0
        self.confirmations = decider.checks - before
        if again < 1:
            self.best = self.subject
            self._measure_rate(1)
            if self.rate == 1:  # then it is what was left that fails not every time
                self.gate.distrust((1 + again * times) / (1 + times), 1 + times)
            self.engine.steps.clear()
            self.engine.is_minimal = False
            self.curve.clear()
            self._run_engine()

    def _times_to_confirm(self) -> int:
        """How many more runs must show the result: many if the failure is not steady."""
        is_suspect = self.gate.decider.is_suspect
        if self.options.check is None and not is_suspect:
            return 1
        is_doubtful = is_suspect or self.gate.refusals.contradict(self.best)
        return MORE_CONFIRMATIONS if is_doubtful else CONFIRMATIONS

    def _make_plain(self) -> None:
        """Let the smallest subject tell its cause; a steady failure of a target, searched to the end.

        Of what is plain it is asked once more, in the other order, whether a node can go.
        """
        engine, is_steady = self.engine, self.gate.decider.steadiness.is_steady
        if self.verdict is None or self.options.private or not (is_steady and engine.is_minimal):
            return
        self._run_plain_moves()
        others = [move for move in reversed(engine.moves) if move.late and move.name not in MEASURED]
        if size(self.best)[0] < LEAST_NODES or not others:
            return
        before = self.best
        self._run_over(Engine(self.gate, others, Hints(), engine.learn, steps=engine.steps))
        if self.best is not before:
            self._run_over(engine)
            self._run_plain_moves()
        self.is_asked_again = True

    def _run_plain_moves(self) -> None:
        """Run the moves that make plain; dims stay where nothing runs the program that could refuse them."""
        engine, moves = self.engine, plain_moves(type(self.best))
        if not self._is_run():
            moves = tuple(move for move in moves if not move.reshapes)
        hints = replace(engine.hints, operands=self.subject.operands)
        self.best = Engine(self.gate, moves, hints, engine.learn, steps=engine.steps).run_once(self.best)

    def _is_run(self) -> bool:
        """Whether the un-optimised program gives its outputs, or else the reference runs the best one."""
        if self.verdict is None or self.verdict.runs[0].is_ok:
            return True
        with self.pool.one() as judge:
            return judge.open(self.best.case(self.case)).referee.is_ok

    def _run_over(self, engine: Engine) -> None:
        for better in engine.run(self.best):
            self.best = better

    def _hide(self) -> None:
        """Replace private words and values, even if no check is left: only the journal comes before."""
        self.gate.decider.allowance = Allowance()
        self.best = hide(self.engine, self.best.embedded())
        self.words_left = inspect(self.case, self.best.case(self.case))

    def _run_engine(self) -> None:
        if self.gate.decider.steadiness.is_too_rare:
            return
        for better in self.engine.run(self.subject):
            self.best = better

    def _pass_set(self) -> PassSet | None:
        """The minimal pass set of the result; None if a command decides."""
        if self.verdict is None:
            return None
        case, decider = self.best.case(self.case), self.gate.decider

        with self.pool.one() as judge:
            self.release = judge.release
            self.last = judge.verdict(case)
            return find_pass_set(judge, case, self.last, self.ask, decider.steadiness.repeats)

    def ask(self, key: str, question: Callable[[], bool]) -> bool:
        """A question beside the search, answered from the journal where it was asked before."""
        decider, digest = self.gate.decider, hashlib.sha256(key.encode()).hexdigest()
        if digest not in decider.journal.answers:
            decider.allowance.spend(0)  # the minutes only
            decider.journal.add(digest, Answer(question()))
        decider.used.append(digest)
        return decider.journal.answers[digest].interesting
