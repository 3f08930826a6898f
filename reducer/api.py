"""Reducing a case: show that it fails, shrink it through the gate, leave a folder that resumes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.formats.onnx import checker_complaint, measure, parse, repair
from corpus.measure import Measure
from corpus.target import Target
from corpus.values import Value
from oracles.judge import Judge
from oracles.record import record
from oracles.run import Limits
from oracles.signature import Signature, signature
from oracles.verdict import Symptom, Verdict
from reducer.engine import Engine, Step
from reducer.evidence import read_hints
from reducer.facts import learn
from reducer.gate import Budget, BudgetSpent, Gate, Predicate
from reducer.journal import NAME as JOURNAL
from reducer.journal import Answer, Journal
from reducer.move import Hints, Move, all_moves
from reducer.predicates import Both, Command, JudgePool, SameSymptom
from reducer.subject import Subject

RESULT = "reduction.json"


class DoesNotFail(Exception):
    """The case that was to be reduced does not fail (any more)."""


@dataclass(frozen=True)
class Options:
    """How to reduce: on which target, or by which command; and how long.

    `check` is a shell command whose exit code `check_exit` means interesting; without it the target's
    symptom is kept. `also` is a second command that must exit with 0.
    """

    target: Target = field(default_factory=lambda: Target("ort"))
    check: str | None = None
    check_exit: int = 0
    also: str | None = None
    jobs: int = 1
    minutes: float | None = None
    max_checks: int | None = None
    limits: Limits = field(default_factory=Limits)
    rtol: float = 1e-2
    atol: float = 1e-3
    accept_invalid: bool = False
    timeout: float = 300.0

    def header(self, case: Case) -> Mapping[str, Any]:
        """What must be the same for a journal to be of use."""
        names = ("check", "check_exit", "also", "rtol", "atol", "accept_invalid")
        return {
            "case_id": case.case_id,
            "target": str(self.target),
            "moves": [move.name for move in all_moves()],
            **{name: getattr(self, name) for name in names},
        }


@dataclass(frozen=True)
class Progress:
    """What a live line shows: where the reduction stands after a check."""

    move: str
    checks: int
    nodes: int
    bytes: int
    was_interesting: bool


@dataclass(frozen=True)
class Reduction:
    """The result: the smallest case, what it shows, and what it took.

    `checks` counts every evaluation of the predicate, the first included and cache hits not; `sweep_checks`
    those after the last accepted change. `is_minimal` is only set when a full round of all `moves` changed
    nothing.
    """

    case: Case
    verdict: Verdict | None
    before: Measure
    after: Measure
    checks: int
    sweep_checks: int
    cached: int
    seconds: float
    is_minimal: bool
    moves: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def signature(self) -> Signature | None:
        return signature(self.verdict, self.after, self.case) if self.verdict else None

    def to_json(self) -> dict[str, Any]:
        """The fields of the command-line contract."""
        found = self.signature
        return {
            "nodes_before": self.before.nodes,
            "nodes_after": self.after.nodes,
            "function_nodes_before": self.before.function_nodes,
            "function_nodes_after": self.after.function_nodes,
            "bytes_before": self.before.bytes,
            "bytes_after": self.after.bytes,
            "checks": self.checks,
            "sweep_checks": self.sweep_checks,
            "cached": self.cached,
            "seconds": round(self.seconds, 3),
            "symptom": str(self.verdict.symptom) if self.verdict else "",
            "signature": found.digest if found else "",
            "minimal": self.is_minimal,
            "moves": list(self.moves),
            "ops": list(self.after.ops),
            "passes": [],
        }


@dataclass
class Session:
    """One reduction in a folder, from the first check to the written result."""

    case: Case
    out: Path
    options: Options
    on_progress: Callable[[Progress], None] = lambda progress: None
    on_other: Callable[[Case, Verdict], None] = lambda case, verdict: None

    def __post_init__(self) -> None:
        self.pool = JudgePool(self._judge)
        self.best = self.case
        self.verdict: Verdict | None = None

    def _judge(self) -> Judge:
        options = self.options
        return Judge(
            options.target,
            limits=options.limits,
            rtol=options.rtol,
            atol=options.atol,
            accept_invalid=options.accept_invalid,
        )

    def run(self) -> Reduction:
        """Reduce; raises `DoesNotFail`, and `UserError` for a folder of another case."""
        started = time.monotonic()
        journal = Journal(self.out / JOURNAL, self.options.header(self.case))
        journal.open()
        try:
            return self._reduce(journal, started)
        finally:
            journal.close()
            self.pool.close()

    def _reduce(self, journal: Journal, started: float) -> Reduction:
        predicate, hints = self._predicate()
        model, _ = repair(parse(self.case.program))
        rejected = checker_complaint(model) is not None
        gate = Gate(
            predicate,
            self.case,
            lambda case: rejected or checker_complaint(parse(case.program)) is None,
            journal,
            self._budget(started),
            self.options.jobs,
            self._on_check,
        )
        engine = Engine(gate, all_moves(), hints, self._learn)
        self.engine = engine
        subject = Subject(model, self.case.inputs, external=self.case.external)
        try:
            self._shrink(gate, engine, subject)
        finally:
            gate.close()
            result = self._result(gate, engine, started)
            self._write(result, is_finished=engine.is_minimal)
        if engine.is_minimal:
            journal.finish(gate.committed)
        return result

    def _shrink(self, gate: Gate, engine: Engine, subject: Subject) -> None:
        with suppress(BudgetSpent):
            if not gate(lambda: subject):
                raise DoesNotFail
            for better in engine.run(self._learn(subject)):
                self.best = better.case(self.case)

    def _predicate(self) -> tuple[Predicate, Hints]:
        options = self.options
        predicate: Predicate
        hints = Hints()
        if options.check is None:
            predicate, hints = self._same_symptom()
        else:
            predicate = Command(options.check, options.check_exit, options.timeout)
        if options.also is not None:
            predicate = Both(predicate, Command(options.also, 0, options.timeout))
        return predicate, hints

    def _same_symptom(self) -> tuple[Predicate, Hints]:
        with self.pool.one() as judge:
            verdict = judge.verdict(self.case)
        if verdict.symptom is None:
            raise DoesNotFail
        self.verdict = verdict
        only = verdict.runs[-1].config if len(verdict.runs) > 1 else None
        return SameSymptom(self.pool, verdict.symptom, only, self.on_other), read_hints(verdict)

    def _learn(self, subject: Subject) -> Subject:
        with self.pool.one() as judge:
            return learn(subject, lambda case: record(judge, case).values, self.case)

    def _budget(self, started: float) -> Budget:
        options = self.options
        deadline = started + 60 * options.minutes if options.minutes is not None else float("inf")
        return Budget(deadline, options.max_checks if options.max_checks is not None else float("inf"))

    def _on_check(self, gate: Gate, case: Case, answer: Answer) -> None:
        found = measure(parse(case.program))
        if answer.interesting and found.nodes <= measure(parse(self.best.program)).nodes:
            self.best = case
        self.on_progress(
            Progress(self.engine.move, gate.checks, found.nodes, found.bytes, answer.interesting)
        )

    def _result(self, gate: Gate, engine: Engine, started: float) -> Reduction:
        return Reduction(
            case=self.best,
            verdict=self._final_verdict(),
            before=measure(parse(self.case.program)),
            after=measure(parse(self.best.program)),
            checks=gate.checks,
            sweep_checks=gate.checks - gate.last_accepted,
            cached=gate.cached,
            seconds=time.monotonic() - started,
            is_minimal=engine.is_minimal,
            moves=tuple(move.name for move in engine.moves),
            steps=tuple(engine.steps),
        )

    def _final_verdict(self) -> Verdict | None:
        """The verdict on the result itself, whose evidence a report shows."""
        if self.verdict is None or self.best is self.case:
            return self.verdict
        with self.pool.one() as judge:
            return judge.verdict(self.best)

    def _write(self, result: Reduction, *, is_finished: bool) -> None:
        self.best.save(self.out)
        facts = {name: value for name, value in result.to_json().items() if name not in ("seconds", "cached")}
        facts |= {"finished": is_finished, "steps": [asdict(step) for step in result.steps]}
        (self.out / RESULT).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def reduce_case(
    case: Case,
    out: Path,
    options: Options,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_other: Callable[[Case, Verdict], None] = lambda case, verdict: None,
) -> Reduction:
    """Reduce `case` into the folder `out`; see `Session.run`."""
    target_case = replace(case, target=options.target)
    return Session(target_case, out, options, on_progress, on_other).run()


def is_finished(out: Path) -> bool:
    """Whether `out` holds a reduction that ended by itself."""
    path = out / RESULT
    if not path.is_file():
        return False
    return bool(json.loads(path.read_text(encoding="utf-8")).get("finished"))


def moves() -> tuple[Move, ...]:
    """Every reduction move there is, in order."""
    return all_moves()


__all__ = ["DoesNotFail", "Options", "Progress", "Reduction", "Symptom", "Value", "reduce_case"]
