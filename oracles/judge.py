"""The judge: runs a case as its target says and gives the verdict."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from types import TracebackType
from typing import Any

import numpy as np
import onnx

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.formats.onnx import parse, repair
from corpus.target import Target
from corpus.values import Value
from oracles.asked import SETTING, Asked, Asking, Way, find_asked, own_judge
from oracles.backends import (
    Compared,
    ComparesItself,
    ComputesWide,
    Forking,
    Referred,
    RunsGraphs,
    Sequenced,
    Tagging,
    find_backend,
)
from oracles.naming.symptom import symptom_of_run
from oracles.native.watching import Watch
from oracles.numerics.compare import AUTO, Tolerance, compare_outputs
from oracles.numerics.declarations import outputs_contradict
from oracles.probes.context import Context
from oracles.probes.graph_context import GraphContext
from oracles.probes.parting import Parting
from oracles.probes.tir_context import TirContext
from oracles.rules import Rule, find_rules, is_suspect, sceptical_rules
from oracles.run import Config, Limits, Phase, Run, Status
from oracles.sandbox.sandbox import RENEW_AFTER, Job, Sandbox, SandboxError
from oracles.verdict import Outcome, Symptom, Verdict

STATE_DEPENDENT = "state-dependent"
"""The note of a verdict whose case did another thing in the first run than in a new process."""

UNDECIDED = "undecided"
"""How the note of a difference begins that nothing explains and no truth confirms."""

NONFINITE = "nonfinite"
"""The note of a difference that was set aside because of values that are not finite."""

REFEREE_CPU_SECONDS = 5.0

OPTIMISED_BYTES = 64 << 20
"""Of a larger program the optimised form is not asked for."""

DECLARED_BYTES = 16 << 20
"""Of a larger program the outputs' types are not compared with the outputs."""

_LIMITS = Limits()


class Judge:
    """Gives verdicts on cases of one target and format; owns the sandboxes that they run in, so close it."""

    def __init__(
        self,
        target: Target,
        *,
        limits: Limits = _LIMITS,
        tolerance: Tolerance = AUTO,
        accept_invalid: bool = False,
        lower_levels: bool = True,
        format: str = "onnx",
        watch: Watch | None = None,
    ) -> None:
        self.target = target
        self.format = format
        self.limits = limits
        self.screen, self.tolerance = tolerance, tolerance.plain
        self.accept_invalid = accept_invalid
        self.lower_levels = lower_levels
        self.watch = watch
        self.backend = find_backend(target.backend)
        self.configs = self._configs()
        if isinstance(self.backend, Sequenced):
            self.configs = (unsequenced(self.configs[0], self.configs[0].label), *self.configs[1:])
        usual = self.backend.ASKED if isinstance(self.backend, Referred) and format != "onnx" else ""
        self._asked = find_asked(target.get(SETTING, usual))
        self._forks = isinstance(self.backend, Forking)
        self._sandbox = Sandbox(
            target.backend,
            python=target.get("python") or None,
            limits=limits,
            renew_after=1 if self._forks else RENEW_AFTER,
            gpu=target.device.startswith("cuda"),
            watch=watch,
        )
        self._others: dict[str, Sandbox] = {}
        self._siblings: dict[str, Judge] = {}
        self._is_hurried = False
        self._referee: Sandbox | None = None

    def _configs(self) -> tuple[Config, ...]:
        """The baseline, which may be another backend's, then the target's own ways."""
        if self.format != "onnx":
            return self._configs_of_graphs()
        own = self.backend.configs(self.target)
        if not isinstance(self.backend, Compared):
            return own
        name = self.backend.BASELINE
        first = find_backend(name).configs(Target(name))[0]
        return (replace(first, label=f"{name} {first.label}", backend=name), *own)

    def _configs_of_graphs(self) -> tuple[Config, ...]:
        """The target's own ways to run such programs; raises `UserError` where it has none."""
        backend = self.backend
        if not isinstance(backend, RunsGraphs) or self.format not in backend.FORMATS:
            usual = find_format(self.format).TARGET
            raise UserError(
                f"target {self.target}: runs no {self.format} programs; choose another, such as {usual}"
            )
        if isinstance(backend, ComparesItself):
            return backend.configs_of_graphs(self.target, self.format)
        return backend.configs(self.target)

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self) -> None:
        """Start the target's sandbox without waiting for it."""
        self._sandbox.begin()

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
        for sandbox in (self._sandbox, self._referee, *self._others.values()):
            if sandbox:
                sandbox.close()

    def hurry(self, wall_seconds: float) -> None:
        """From here on a run that takes so long hangs, and is not run a second time to be sure."""
        self._is_hurried = True
        wall = min(self.limits.wall_seconds, wall_seconds)
        self._sandbox.limits = replace(self.limits, wall_seconds=wall)

    def runs(self, case: Case, configs: tuple[Config, ...], **job_options: Any) -> tuple[Run, ...]:
        """What the case does under each configuration, unjudged and as it is."""
        return self._run(
            Job(
                case.program,
                case.inputs,
                configs,
                case.external,
                format=case.format,
                passes=case.passes,
                **job_options,
            )
        )

    def rerun(self, job: Job) -> tuple[Run, ...]:
        """Run another program in the un-optimised configuration."""
        return self._run(replace(job, configs=self.configs[:1]))

    def run_as(self, job: Job) -> tuple[Run, ...]:
        """Run another program under the job's own configurations."""
        return self._run(job)

    def _run(self, job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        """Run every config where it belongs, a baseline of another backend in that one's sandbox."""
        runs: list[Run] = []
        for name, configs in groupby(job.configs, key=lambda config: config.backend):
            part = replace(job, configs=tuple(configs))
            runs += self._sandbox_of(name).run(part, fresh=fresh)
        return tuple(runs)

    def _sandbox_of(self, name: str) -> Sandbox:
        if not name:
            return self._sandbox
        if name not in self._others:
            self._others[name] = Sandbox(name, limits=self.limits)
        return self._others[name]

    def cpu_seconds(self) -> float:
        """CPU time that the processes of all its sandboxes have used."""
        sandboxes = (self._sandbox, self._referee, *self._others.values())
        return sum(sandbox.cpu_seconds() for sandbox in sandboxes if sandbox)

    @property
    def release(self) -> str:
        """The version of the framework that runs the cases."""
        return str(self._sandbox.facts.get("version", ""))

    def optimised(self, case: Case, config: Config) -> onnx.ModelProto | None:
        """The program as the backend's optimiser leaves it; None where that cannot be had."""
        is_plain = case.format == "onnx" and not case.external and len(case.program) <= OPTIMISED_BYTES
        if not hasattr(self.backend, "optimised") or not is_plain:
            return None
        program = base64.b64encode(case.program).decode("ascii")
        try:
            answer = self._sandbox.ask("optimised", program, config.get("level"))
        except SandboxError:
            return None
        return parse(base64.b64decode(answer)) if answer else None

    def verdict(self, case: Case, *, fresh: bool = True, only: Config | None = None) -> Verdict:
        """Judge a case.

        A case that shows nothing costs its runs and one comparison. One that does is repaired, run again (in
        a new process with `fresh`) and taken through the rules; that second verdict counts. `only` compares
        the un-optimised baseline with that one configuration.
        """
        if only is not None and only.asked_by:
            return self._verdict_of_way(case, only, fresh)
        rounds = self._rounds(case, only)
        baseline: Run | None = None
        context: Context | None = None
        notes: tuple[str, ...] = ()
        while rounds:
            runs = self._first_take(case, baseline, rounds.pop(0))
            suspect = is_suspect(case, runs)
            if suspect is False:
                return _set_aside(runs)
            is_clean = self._is_clean(case, runs)
            if is_clean and suspect and baseline is None:
                context = self._open(case)
                is_clean = self._judge(case, runs, context, sceptical_rules()).outcome is Outcome.PASS
            if not is_clean:
                context = context or self._open(case)
                verdict = self._second_take(case, context, runs, fresh)
                if verdict.outcome is not Outcome.PASS:
                    return verdict
                runs, notes = verdict.runs, (*notes, *verdict.notes)
                if only is None and baseline is None:
                    # a difference that rounding explains at one level may be plain at a simpler one
                    rounds = [self._simpler(case)]
            baseline = runs[0]
        for oracle in self._asked if only is None else ():
            found = self._ask(oracle, case, runs[0], fresh)
            if found is not None:
                return found
        return _harmless(runs, tuple(dict.fromkeys(notes)))

    def _ask(
        self, oracle: Asked, case: Case, baseline: Run, fresh: bool, only: Config | None = None
    ) -> Verdict | None:
        """What one more oracle finds in a case that passes otherwise; None where it finds nothing."""
        ways = list(oracle.ways(case, Asking(self.target, self.configs)))
        if only is not None:  # as it is given: passes may be disabled in it
            ways = [replace(way, config=only) for way in ways if way.config.asked_by == only.asked_by]
        judge = own_judge(oracle)
        if judge is not None:
            return judge(case, (baseline, *(self._run_way(way, case) for way in ways)), self._open(case))
        for way in ways:
            verdict = self._judge_way(way, case, baseline, fresh)
            if verdict is not None:
                return verdict
        return None

    def _judge_way(self, way: Way, case: Case, baseline: Run, fresh: bool) -> Verdict | None:
        run = self._run_way(way, case)
        if not run.is_ok and (way.config.backend or self._classify(run) == "unsupported"):
            return None
        if run.is_ok and compare_outputs(baseline.outputs, run.outputs, self.tolerance) is None:
            return None
        runs = baseline, run if self._forks else self._run_way(way, case, fresh=fresh)
        context = self._open(case)
        verdict = self._judge(case, runs, context, find_rules())
        notes = tuple(dict.fromkeys((*context.notes, *verdict.notes, *self._tags(verdict))))
        return replace(verdict, notes=notes) if verdict.is_bug else None

    def _verdict_of_way(self, case: Case, config: Config, fresh: bool) -> Verdict:
        """The case judged by that one way of an oracle that is asked for by name."""
        baseline = self.runs(case, self.configs[:1])[0]
        (oracle,) = find_asked(config.asked_by.partition(":")[0])
        only = None if own_judge(oracle) else config
        found = self._ask(oracle, case, baseline, fresh, only) if baseline.is_ok else None
        return found or _harmless((baseline,), ())

    def _run_way(self, way: Way, case: Case, *, fresh: bool = False) -> Run:
        program = case.program if way.program is None else way.program
        inputs = case.inputs if way.inputs is None else way.inputs
        job = Job(program, inputs, (way.config,), case.external, format=case.format, passes=case.passes)
        return self._run(job, fresh=fresh)[0]

    def explain(self, case: Case, verdict: Verdict) -> Verdict:
        """A wrong result with the first tensor that differs; it takes a few runs more."""
        wrong = verdict.wrong
        if wrong is None or wrong.located is not None or case.format != "onnx" or len(verdict.runs) < 2:
            return verdict
        found = self.parting(case, verdict)
        if found is None:
            return verdict
        located = found.located(parse(case.program))
        return replace(
            verdict, wrong=replace(wrong, first=located.tensor, operator=located.op, located=located)
        )

    def parting(self, case: Case, verdict: Verdict) -> Parting | None:
        """Where the runs of a wrong result part; None where none can tell, or the case is no ONNX model."""
        if verdict.wrong is None or case.format != "onnx" or len(verdict.runs) < 2:
            return None
        return self._open(case).parting(verdict.runs[-1].config, verdict.wrong.output)

    def _rounds(self, case: Case, only: Config | None) -> list[tuple[Config, ...]]:
        """What to compare the baseline with: all optimisations; where that passes, the lower levels."""
        if only is not None:
            return [(only,)]
        rounds = [self.configs[1:2]]
        if self.lower_levels and (simpler := self._simpler(case)):
            rounds.append(simpler)
        return rounds

    def _simpler(self, case: Case) -> tuple[Config, ...]:
        """The lower levels, and of a case with a sequence of passes the first way without that."""
        lower = self.configs[2:]
        if not case.passes or not isinstance(self.backend, Sequenced):
            return lower
        first = self.configs[1]
        return (*lower, unsequenced(first, f"{first.label} without its passes"))

    def _first_take(self, case: Case, baseline: Run | None, others: tuple[Config, ...]) -> tuple[Run, ...]:
        if baseline is None:
            return self.runs(case, (self.configs[0], *others))
        return (baseline, *self.runs(case, others))

    def _is_clean(self, case: Case, runs: tuple[Run, ...]) -> bool:
        expected = runs[0].outputs
        if not all(run.is_ok for run in runs) or any(
            compare_outputs(expected, run.outputs, self.screen) for run in runs[1:]
        ):
            return False
        is_small = case.format == "onnx" and len(case.program) <= DECLARED_BYTES
        return not (is_small and outputs_contradict(parse(case.program), expected))

    def describe(self, program: bytes, inputs: Mapping[str, Value]) -> Mapping[str, Any]:
        """The `types` of a graph's bindings, or the `error` that makes it ill-formed; nothing if it dies."""
        tensors = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        types = {name: (value.dtype.name, value.shape) for name, value in tensors.items()}
        try:
            answer: Mapping[str, Any] = self._sandbox.ask("describe", program.decode(), types)
        except SandboxError:
            return {}
        return answer

    def _open_graph(self, case: Case) -> GraphContext:
        assert isinstance(self.backend, RunsGraphs)
        double = Config("float64", self.backend.DOUBLE) if self.backend.DOUBLE else None
        if isinstance(self.backend, Referred):
            double = Config("float64", backend=self.backend.REFEREE)
        return GraphContext(
            find_format(case.format).parse(case.program),
            Job(case.program, case.inputs, self.configs[:1], format=case.format, passes=case.passes),
            describe=self.describe,
            double=double,
            classify=self._classify,
            tolerance=self.tolerance,
            screen=self.screen,
            rerun=self.rerun,
            run_as=self.run_as,
        )

    def _open_loops(self, case: Case) -> TirContext:
        return TirContext(
            Job(case.program, case.inputs, self.configs[:1], format=case.format, passes=case.passes),
            classify=self._classify,
            tolerance=self.tolerance,
            rerun=self.rerun,
        )

    def _open(self, case: Case) -> Context:
        if case.format == "tir":
            return self._open_loops(case)
        if case.format != "onnx":
            return self._open_graph(case)
        original = parse(case.program)
        model, notes = repair(original)
        program = case.program if model is original else model.SerializeToString()
        context = Context(
            model,
            Job(program, case.inputs, self.configs[:1], case.external, passes=case.passes),
            classify=self._classify,
            tolerance=self.tolerance,
            screen=self.screen,
            is_wide=isinstance(self.backend, ComputesWide) and self.target.device == "cpu",
            accept_invalid=self.accept_invalid,
            rerun=self.rerun,
            ask_referee=self._ask_referee,
            run_job=self._run,
        )
        context.notes.extend(notes)
        return context

    def _second_take(self, case: Case, context: Context, first: tuple[Run, ...], fresh: bool) -> Verdict:
        runs = first
        repaired = context.job.program is not case.program
        context.earlier = () if repaired else first[:1]
        is_hang = self._is_hurried and any(run.status is Status.TIMEOUT for run in first)
        if not is_hang and (repaired or (fresh and not self._forks)):
            configs = tuple(run.config for run in first)
            runs = self._run(replace(context.job, configs=configs), fresh=fresh)
        changed = [run.status for run in runs] != [run.status for run in first]
        was_clean = self._is_clean(case, first)
        if not repaired and not was_clean and (changed or self._is_clean(case, runs)):
            context.notes.append(STATE_DEPENDENT)
        verdict = self._judge(case, runs, context, find_rules())
        set_aside = context.noise.notes if verdict.outcome is Outcome.PASS else ()
        notes = (*context.notes, *set_aside, *verdict.notes, *self._tags(verdict))
        return replace(verdict, notes=tuple(dict.fromkeys(notes)))

    def _classify(self, run: Run) -> str:
        backend = find_backend(run.config.backend) if run.config.backend else self.backend
        return backend.classify(run)

    def _tags(self, verdict: Verdict) -> tuple[str, ...]:
        run = verdict.runs[-1] if verdict.runs else None
        if run is None or run.is_ok or not verdict.is_bug or not isinstance(self.backend, Tagging):
            return ()
        return self.backend.tags(run)

    def _judge(self, case: Case, runs: tuple[Run, ...], context: Context, rules: tuple[Rule, ...]) -> Verdict:
        case = replace(case, target=self.target)
        for rule in rules:
            verdict = rule(case, runs, context)
            if verdict is not None:
                return verdict
        return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs)

    def _ask_referee(self, job: Job) -> Run:
        """The case in an independent implementation, under a small limit: it may be slow, or wrong itself."""
        name = "ort" if self.target.backend == "reference" else "reference"
        if self._referee is None:
            limits = replace(self.limits, cpu_seconds=REFEREE_CPU_SECONDS)
            self._referee = Sandbox(name, limits=limits)
        configs = find_backend(name).configs(Target(name))[:1]
        return self._referee.run(replace(job, configs=configs))[0]


def unsequenced(config: Config, label: str) -> Config:
    """The way without a case's own sequence of passes: OATest's oracle compares the two."""
    return replace(config, label=label, settings=(*config.settings, ("passes", ())))


def _set_aside(runs: tuple[Run, ...]) -> Verdict:
    """No failure, by the word of a rule: what did not run had no need to."""
    refused = next((run for run in runs if not run.is_ok), None)
    if refused is None:
        return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs)
    symptom = symptom_of_run(Outcome.INVALID, refused)
    return Verdict(Outcome.INVALID, refused.phase, f"refused: {refused.message[:200]}", symptom, runs)


def _harmless(runs: tuple[Run, ...], notes: tuple[str, ...]) -> Verdict:
    """What no rule objects to: it passes, differs only in what hangs on a NaN, or nothing decides."""
    undecided = next((note for note in notes if note.startswith(UNDECIDED)), "")
    if undecided and NONFINITE not in notes:
        symptom = Symptom(Outcome.UNDECIDED, Phase.COMPARE, UNDECIDED)
        return Verdict(Outcome.UNDECIDED, Phase.COMPARE, undecided, symptom, runs, notes)
    if NONFINITE not in notes:
        return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs, notes=notes)
    symptom = Symptom(Outcome.NONFINITE, Phase.COMPARE, NONFINITE)
    title = "differs only in what hangs on a NaN or an infinity"
    return Verdict(Outcome.NONFINITE, Phase.COMPARE, title, symptom, runs, notes)
