"""Takes a case's runs through the rules, and through the oracles that are asked for by name."""

from dataclasses import dataclass, replace

from corpus.case import Case, Remark
from oracles.abilities import Opened, language_of
from oracles.numerics.compare import Tolerance, compare_outputs
from oracles.optional import Asked, Asking, VariantRun, find_asked
from oracles.probes.context import Context
from oracles.probes.wrong_side import is_wrong_for_sure
from oracles.rules import Rule, find_rules
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Mark, Notes, Outcome, Phase, Run, Symptom, Verdict


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
        context: Context = language_of(opened.case.format).open(
            opened,
            self.executor,
            tolerance=self.tolerance,
            screen=self.screen,
            accept_invalid=self.accept_invalid,
        )
        return context

    def judge(
        self, case: Case, runs: tuple[Run, ...], context: Context, rules: tuple[Rule, ...] | None = None
    ) -> Verdict:
        """The verdict of the first rule that has one, of all rules or of some; else *pass*."""
        case = replace(case, target=self.executor.target)
        for rule in find_rules() if rules is None else rules:
            verdict = rule.judge(case, runs, context)
            if verdict is not None:
                return _about_us(case, verdict)
        return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=runs)

    def noted(self, verdict: Verdict, *told: Notes) -> Verdict:
        """The verdict with what was noted before it, and what the backend says of it."""
        tags = self.tags(verdict)
        notes = [text for each in told for text in each.texts]
        marks = {mark: text for each in reversed(told) for mark, text in each.marks.items()}
        marks |= {mark: mark.value for mark in Mark if mark.value in tags}
        every = dict.fromkeys((*notes, *verdict.notes, *tags))
        return replace(verdict, notes=tuple(every), marks={**marks, **verdict.marks})

    def tags(self, verdict: Verdict) -> tuple[str, ...]:
        """The backend's tags of a failure for a person, such as `importer-limit`."""
        run, backend = verdict.failing, self.executor.backend
        if run is None or run.is_ok or not verdict.is_bug:
            return ()
        return backend.tags(run)


UNFIT = "made inputs do not fit"


def _about_us(case: Case, verdict: Verdict) -> Verdict:
    """Undecided instead of invalid, if the inputs that are refused are known not to fit: crux made them."""
    is_ours = case.remarks(Remark.UNFIT) and verdict.phase is Phase.EXECUTE
    if verdict.outcome is not Outcome.INVALID or not is_ours:
        return verdict
    title = f"undecided: the inputs that crux made do not fit; give --inputs or --dims ({verdict.title})"
    symptom = Symptom(Outcome.UNDECIDED, Phase.EXECUTE, UNFIT)
    return replace(verdict, outcome=Outcome.UNDECIDED, title=title, symptom=symptom)


@dataclass(frozen=True)
class OptionalOracles:
    """Asks oracles about a case by the rules of its target."""

    rulebook: Rulebook

    @property
    def executor(self) -> Executor:
        """The executor that runs the configurations."""
        return self.rulebook.executor

    @property
    def _asking(self) -> Asking:
        executor = self.executor
        return Asking(executor.target, executor.configs, executor.describe, executor.release_under)

    def ask(
        self, oracle: Asked, opened: Opened, baseline: Run, fresh: bool, only: Config | None = None
    ) -> Verdict | None:
        """Ask one oracle, with all its configurations or `only` the given one; None if it finds nothing."""
        case = opened.case
        ways = list(oracle.ways(case, self._asking))
        if only is not None:  # as it is given: passes may be disabled in it
            own = {way.program: way for way in ways if way.config.asked_by == only.asked_by}
            ways = [replace(way, config=only) for way in own.values()]
        if oracle.judge is not None:
            runs = (baseline, *(self._run(way, opened) for way in ways))
            return oracle.judge(case, runs, self.rulebook.open(opened))
        for way in ways:
            verdict = self._judge_way(way, opened, baseline, fresh)
            if verdict is not None:
                return verdict
        return None

    def ask_way(self, opened: Opened, baseline: Run, config: Config, fresh: bool) -> Verdict | None:
        """Ask the oracle that this configuration belongs to; None if it finds nothing."""
        (oracle,) = find_asked(config.asked_by.partition(":")[0])
        only = None if oracle.judge else config
        return self.ask(oracle, opened, baseline, fresh, only) if baseline.is_ok else None

    def rewritten(self, opened: Opened, asked_by: str) -> Case | None:
        """The case that an oracle made of this one for its way of that name; None if it ran this one."""
        case, asking = opened.case, self._asking
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
        if way.config.backend and is_wrong_for_sure(verdict):
            return None  # the other framework's own fault
        return rulebook.noted(verdict, context.notes) if verdict.is_bug else None

    def _run(self, way: VariantRun, opened: Opened, *, fresh: bool = False) -> Run:
        case = opened.case
        program = case.program if way.program is None else way.program
        inputs = case.inputs if way.inputs is None else way.inputs
        job = Job(program, inputs, (way.config,), case.external, format=case.format, passes=case.passes)
        return self.executor.run(job, fresh=fresh)[0]
