"""Takes a case's runs through the rules: what they may ask of the case is opened here, once for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import onnx

from corpus.case import Case
from corpus.onnx.repair import repair
from oracles.numerics.compare import Tolerance
from oracles.probes.context import Context
from oracles.probes.graph_context import GraphContext
from oracles.probes.onnx_context import OnnxContext
from oracles.probes.tir_context import TirContext
from oracles.rules import Rule, find_rules
from oracles.run import Config, Phase, Run
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job
from oracles.verdict import Mark, Notes, Outcome, Verdict


@dataclass(frozen=True)
class Opened:
    """A case whose ONNX program is parsed and repaired at most once; nobody may change the models."""

    case: Case

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The program as it is; raises `UserError` if it is no ONNX model."""
        model: onnx.ModelProto = self.case.parsed
        return model

    @cached_property
    def repaired(self) -> tuple[onnx.ModelProto, tuple[str, ...]]:
        """The model with wrong annotations put right, and what these were; the model itself if none was."""
        model, notes = repair(self.model)
        return model, tuple(notes)


@dataclass(frozen=True)
class Rulebook:
    """The rules for the cases of one target.

    `tolerance` says which differences are plain, `screen` which get a closer look.
    """

    executor: Executor
    tolerance: Tolerance
    screen: Tolerance
    accept_invalid: bool

    def open(self, opened: Opened) -> Context:
        """Open a case for rules, each time anew: a context remembers answers and notes."""
        case, executor = opened.case, self.executor
        if case.format == "tir":
            return self._open_loops(case)
        if case.format != "onnx":
            return self._open_graph(case)
        model, notes = opened.repaired
        program = case.program if model is opened.model else model.SerializeToString()
        context = OnnxContext(
            model,
            Job(program, case.inputs, executor.configs[:1], case.external, passes=case.passes),
            executor,
            tolerance=self.tolerance,
            screen=self.screen,
            is_wide=executor.backend.computes_wide and executor.target.device == "cpu",
            accept_invalid=self.accept_invalid,
        )
        for note in notes:
            context.notes.add(note)
        return context

    def _open_graph(self, case: Case) -> GraphContext:
        executor, graphs = self.executor, self.executor.backend.graphs
        assert graphs is not None
        double = Config("float64", graphs.double) if graphs.double else None
        if graphs.referee:
            double = Config("float64", backend=graphs.referee)
        return GraphContext(
            case.parsed,
            Job(case.program, case.inputs, executor.configs[:1], format=case.format, passes=case.passes),
            executor,
            double=double,
            tolerance=self.tolerance,
            screen=self.screen,
        )

    def _open_loops(self, case: Case) -> TirContext:
        job = Job(
            case.program,
            case.inputs,
            self.executor.configs[:1],
            format=case.format,
            passes=case.passes,
        )
        return TirContext(job, self.executor, tolerance=self.tolerance, screen=self.tolerance)

    def judge(
        self, case: Case, runs: tuple[Run, ...], context: Context, rules: tuple[Rule, ...] | None = None
    ) -> Verdict:
        """Return the verdict of the first rule that has one, of all rules or of some; else *pass*."""
        case = replace(case, target=self.executor.target)
        for rule in find_rules() if rules is None else rules:
            verdict = rule(case, runs, context)
            if verdict is not None:
                return verdict
        return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs)

    def noted(self, verdict: Verdict, *told: Notes) -> Verdict:
        """Return the verdict with what was noted before it, and what the backend says of it."""
        tags = self.tags(verdict)
        notes = [text for each in told for text in each.texts]
        marks = {mark: text for each in reversed(told) for mark, text in each.marks.items()}
        marks |= {mark: mark.value for mark in Mark if mark.value in tags}
        every = dict.fromkeys((*notes, *verdict.notes, *tags))
        return replace(verdict, notes=tuple(every), marks={**marks, **verdict.marks})

    def tags(self, verdict: Verdict) -> tuple[str, ...]:
        """Return the backend's tags of a failure for a person, such as `importer-limit`."""
        run, backend = verdict.failing, self.executor.backend
        if run is None or run.is_ok or not verdict.is_bug:
            return ()
        return backend.tags(run)
