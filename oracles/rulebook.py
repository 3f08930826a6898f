"""Takes a case's runs through the rules: what they may ask of the case is opened here, once for each."""

from dataclasses import dataclass, replace

from corpus.case import Case, Remark
from oracles.abilities import Opened, language_of
from oracles.numerics.compare import Tolerance
from oracles.probes.context import Context
from oracles.rules import Rule, find_rules
from oracles.sandbox.executor import Executor
from oracles.verdict import Mark, Notes, Outcome, Phase, Run, Symptom, Verdict


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
            verdict = rule(case, runs, context)
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
