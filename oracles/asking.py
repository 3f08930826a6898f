"""The oracles that are asked for by name: further ways to run a case that passes otherwise."""

from dataclasses import dataclass, replace

from corpus.case import Case
from oracles.abilities import Opened
from oracles.numerics.compare import compare_outputs
from oracles.optional import Asked, Asking, VariantRun, find_asked, own_judge
from oracles.rulebook import Rulebook
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Run, Verdict


@dataclass(frozen=True)
class OptionalOracles:
    """Asks oracles about a case by the rules of its target."""

    rulebook: Rulebook

    @property
    def executor(self) -> Executor:
        """The executor that runs the configurations."""
        return self.rulebook.executor

    def ask(
        self, oracle: Asked, opened: Opened, baseline: Run, fresh: bool, only: Config | None = None
    ) -> Verdict | None:
        """Ask one oracle, with all its configurations or `only` the given one; None if it finds nothing."""
        case = opened.case
        executor = self.executor
        asking = Asking(executor.target, executor.configs, executor.describe)
        ways = list(oracle.ways(case, asking))
        if only is not None:  # as it is given: passes may be disabled in it
            own = {way.program: way for way in ways if way.config.asked_by == only.asked_by}
            ways = [replace(way, config=only) for way in own.values()]
        judge = own_judge(oracle)
        if judge is not None:
            runs = (baseline, *(self._run(way, opened) for way in ways))
            return judge(case, runs, self.rulebook.open(opened))
        for way in ways:
            verdict = self._judge_way(way, opened, baseline, fresh)
            if verdict is not None:
                return verdict
        return None

    def ask_way(self, opened: Opened, baseline: Run, config: Config, fresh: bool) -> Verdict | None:
        """Ask the oracle that this configuration belongs to; None if it finds nothing."""
        (oracle,) = find_asked(config.asked_by.partition(":")[0])
        only = None if own_judge(oracle) else config
        return self.ask(oracle, opened, baseline, fresh, only) if baseline.is_ok else None

    def rewritten(self, opened: Opened, asked_by: str) -> Case | None:
        """The case that an oracle made of this one for its way of that name; None if it ran this one."""
        case, executor = opened.case, self.executor
        asking = Asking(executor.target, executor.configs, executor.describe)
        (oracle,) = find_asked(asked_by.partition(":")[0])
        for way in oracle.ways(case, asking):
            if way.config.asked_by == asked_by and way.program is not None:
                return replace(case, program=way.program, inputs=way.inputs or case.inputs)
        return None

    def _judge_way(self, way: VariantRun, opened: Opened, baseline: Run, fresh: bool) -> Verdict | None:
        rulebook, executor = self.rulebook, self.executor
        run = self._run(way, opened)
        if not run.is_ok and (way.config.backend or executor.classify(run) == "unsupported"):
            return None
        if run.is_ok and compare_outputs(baseline.outputs, run.outputs, rulebook.tolerance) is None:
            return None
        runs = baseline, run if executor.forks else self._run(way, opened, fresh=fresh)
        context = rulebook.open(opened)
        verdict = rulebook.judge(opened.case, runs, context)
        return rulebook.noted(verdict, context.notes) if verdict.is_bug else None

    def _run(self, way: VariantRun, opened: Opened, *, fresh: bool = False) -> Run:
        case = opened.case
        program = case.program if way.program is None else way.program
        inputs = case.inputs if way.inputs is None else way.inputs
        job = Job(program, inputs, (way.config,), case.external, format=case.format, passes=case.passes)
        return self.executor.run(job, fresh=fresh)[0]
