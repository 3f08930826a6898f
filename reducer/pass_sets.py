"""The minimal pass set: which of an optimiser's passes it takes for a failure to show.

A candidate keeps some passes and disables every other one that can be disabled. Evidence first: the passes
that the log says changed the program, those of them that the message names, those that have an operator to
start at; then `find_essentials` over what is left. At most 2k·log2(n)+2 checks for k passes of n.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from corpus.case import Case
from corpus.onnx.graph import walk_nodes
from oracles.abilities import Passes
from oracles.judge import Judge
from oracles.numerics.compare import compare_outputs
from oracles.optional import AGAINST
from oracles.verdict import Config, Outcome, Run, Verdict
from reducer.search import Items, SetSearch, answered, find_essentials

Names = frozenset[str]
Asking = Callable[[str, Callable[[], bool]], bool]
"""Answers a question with a key of its own, by asking or from what was answered before."""


@dataclass(frozen=True, slots=True)
class PassSet:
    """The passes that it takes, in the order of `fired`, at the level of optimisation that fails.

    The set is empty for a failure that shows without any optimisation, and for one that shows with every
    pass disabled (`beyond_passes`: what is at fault cannot be disabled by name). `cures` are the passes each
    of which is enough to disable for the failure to go away; the set is unique when all of its members are.
    `checks` counts the verdicts asked for.
    """

    minimal: tuple[str, ...]
    level: str
    checks: int
    fired: tuple[str, ...] = ()
    cures: tuple[str, ...] = ()
    beyond_passes: bool = False

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> PassSet:
        """The set that `to_json` has written."""
        names = {key: tuple(document[key]) for key in ("minimal", "fired", "cures")}
        return cls(
            level=document["level"],
            checks=document["checks"],
            beyond_passes=document["beyond_passes"],
            **names,
        )

    @property
    def unique(self) -> bool:
        """Whether disabling any one of the passes makes the failure go."""
        return set(self.cures) == set(self.minimal)

    def to_json(self) -> dict[str, Any]:
        """The fields of the command-line contract."""
        return {
            "minimal": list(self.minimal),
            "checks": self.checks,
            "unique": self.unique,
            "level": self.level,
            "fired": list(self.fired),
            "cures": list(self.cures),
            "beyond_passes": self.beyond_passes,
        }


def find_pass_set(
    judge: Judge,
    case: Case,
    verdict: Verdict,
    ask: Asking = lambda key, question: question(),
    repeats: int = 1,
) -> PassSet | None:
    """The minimal pass set of a failing verdict of this judge on the case, itself not counted in `checks`.

    None where the backend has no passes to disable, the case no failure, or another release is the faster
    one, which no pass of this one can make up for. A candidate counts as not
    failing after `repeats` verdicts without the symptom.
    """
    if verdict.symptom is None or judge.backend.passes is None or judge.target.get(AGAINST):
        return None
    config = failing_config(verdict, judge)
    baseline = judge.configs[0]
    symptom = verdict.symptom  # of optimising, too, if the baseline is another backend's
    is_optimised = symptom.outcome is Outcome.MISMATCH or symptom.side == "optimised"
    if config is None or config == baseline or not (baseline.backend or is_optimised):
        return PassSet((), baseline.label, 0)
    config, checks = _earliest(judge, case, verdict, config, ask)
    run = judge.runs(case, (config,), collect_log=True)[0]
    return counted(_Search(judge, case, verdict, run, ask, repeats).find(), checks)


def is_of_passes(
    judge: Judge,
    case: Case,
    verdict: Verdict,
    passes: Sequence[str],
    ask: Asking = lambda key, question: question(),
    repeats: int = 1,
) -> bool:
    """Whether these passes are at fault in a failing case: it fails with them alone, or not without them.

    True where no run can tell. What a reduction left is of another bug if its passes are not at fault in the
    original.
    """
    config = failing_config(verdict, judge)
    if not passes or judge.backend.passes is None or config is None:
        return True
    run = judge.runs(case, (config,), collect_log=True)[0]
    search = _Search(judge, case, verdict, run, ask, repeats)
    return search.shows_with(frozenset(passes)) or not search.shows_without(passes)


def _earliest(judge: Judge, case: Case, verdict: Verdict, config: Config, ask: Asking) -> tuple[Config, int]:
    """The configuration that does the least and fails, of those that do a part of what this one does."""
    passes = judge.backend.passes
    earlier = passes.stages(config) if passes is not None else ()
    for count, stage in enumerate(earlier, 1):

        def shows(stage: Config = stage) -> bool:
            return judge.verdict(case, only=stage).symptom == verdict.symptom

        if ask(f"{case.case_id} {stage.label}", shows):
            return stage, count
    return config, len(earlier)


def failing_config(verdict: Verdict, judge: Judge) -> Config | None:
    """The configuration, beside the un-optimised one, that shows the failure."""
    baseline, *others = verdict.runs
    for run in others:
        if not run.is_ok or compare_outputs(baseline.outputs, run.outputs, judge.screen):
            return run.config
    return others[0].config if others else None


@dataclass
class _Search:
    """One search; the sets are of passes, by name, and what is asked is remembered."""

    judge: Judge
    case: Case
    verdict: Verdict
    run: Run
    ask: Asking
    repeats: int
    checks: int = 0
    answers: dict[Names, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        passes = self.judge.backend.passes
        assert passes is not None
        self.passes: Passes = passes
        self.known = self.passes.optimizers(self.run)

    def find(self) -> PassSet:
        fired = self.passes.suspects(self.run)
        found = self._among(fired)
        if found is None:  # the log left something out
            found = self._among(self.known)
        members = tuple(name for name in self.known if found is not None and name in found)
        cures = tuple(name for name in members if not self.shows_without({name}))
        if found is None or (len(members) == 1 and not cures and self.shows_with(frozenset())):
            members = cures = ()
        return PassSet(
            minimal=tuple(sorted(members, key=_order(fired))),
            level=self.run.config.label,
            checks=self.checks,
            fired=self.passes.fired(self.run),
            cures=tuple(sorted(cures, key=_order(fired))),
            beyond_passes=not members,
        )

    def _among(self, names: Sequence[str]) -> Names | None:
        """A minimal set of these passes; None where they are not enough, or nothing is needed."""
        if not names:
            return None
        start = self._start(names)
        found = _drive(find_essentials(range(len(start)), patience=len(start)), start, self.shows_with)
        is_each_needed = found == set(names) and all(not self.shows_without({name}) for name in names)
        return found if is_each_needed or self.shows_with(found) else None

    def _start(self, names: Sequence[str]) -> tuple[str, ...]:
        """The first of the hints that holds all that is needed; all of the passes where none does."""
        message = "\n".join(run.message for run in self.verdict.runs if not run.is_ok)
        words = frozenset(re.findall(r"\w+", message))
        operators = frozenset(self.case.measure.ops)
        hints = (tuple(name for name in names if name in words), self.passes.likely(names, operators))
        fitting = (hint for hint in hints if 0 < len(hint) <= len(names) // 2)
        return next((hint for hint in fitting if self.shows_with(frozenset(hint))), tuple(names))

    def shows_with(self, kept: Names) -> bool:
        """Whether the failure shows with every pass disabled but these."""
        return self.shows_without(frozenset(self.known) - kept)

    def shows_without(self, disabled: Iterable[str]) -> bool:
        key = frozenset(disabled)
        if key not in self.answers:
            self.answers[key] = any(self._ask(key, number) for number in range(self.repeats))
        return self.answers[key]

    def _ask(self, disabled: Names, number: int) -> bool:
        self.checks += 1
        config = self.passes.without(self.run.config, disabled)
        name = f"{self.case.case_id} {self.run.config.label} without {' '.join(sorted(disabled))} {number}"
        wanted = self.verdict.symptom
        return self.ask(name, lambda: self.judge.verdict(self.case, only=config).symptom == wanted)


def _drive(search: SetSearch, names: Sequence[str], shows: Callable[[Names], bool]) -> Names:
    """Run a search over positions as one over names."""

    def chosen(items: Items) -> Names:
        return frozenset(names[item] for item in items)

    return chosen(answered(search, lambda items: shows(chosen(items))))


def _order(fired: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    places: Mapping[str, int] = {name: place for place, name in enumerate(fired)}
    return lambda name: (places.get(name, len(places)), name)


def counted(found: PassSet, checks: int) -> PassSet:
    """Add the checks of the verdict that the set began with."""
    return replace(found, checks=found.checks + checks)


def core_of(case: Case, verdict: Verdict, passes: Sequence[str], judge: Judge) -> str:
    """The operators that go and come, such as `-Div -Mul +Div`; empty where that cannot be seen.

    The optimiser's program with only these passes enabled, beside that with none, tells the nodes that they
    replaced; the rest of a case is there for them to begin at all. It cannot be seen where the optimised
    program does not come to be, as with a kernel that does not exist. Whose operators they are does not
    count: QuantizeLinear is one in either of its domains. Of a compiler whose log tells what each pass
    replaced, its word counts.
    """
    config = failing_config(verdict, judge)
    return core_at(case, config, passes, judge) if config is not None else ""


def core_at(case: Case, config: Config, passes: Sequence[str], judge: Judge) -> str:
    """The same of a configuration."""
    known = judge.backend.passes
    if not passes or known is None or not (judge.backend.shows_optimised or known.replaced):
        return ""
    run = judge.runs(case, (config,), collect_log=True)[0]
    if known.replaced is not None:
        return _told(" ".join(known.replaced(run, name) for name in passes))
    every = known.optimizers(run)
    before = _operators(case, known.without(config, every), judge)
    after = _operators(case, known.without(config, [name for name in every if name not in passes]), judge)
    if before is None or after is None:
        return ""
    signed = [*_signed("-", before - after), *_signed("+", after - before)]
    return " ".join(signed)


def is_within(core: str, known: str) -> bool:
    """Whether what is replaced may be a part of what was: one pass may be wrong in two ways.

    True where either cannot be seen.
    """
    return not (core and known) or Counter(core.split()) <= Counter(known.split())


def puts_in_alike(core: str, known: str) -> bool:
    """Whether what is replaced may be what was: by what is put in, where anything is.

    A fused operand goes only where nobody else reads it, so what is taken away depends on the rest.
    """
    come, known_come = (" ".join(each for each in one.split() if each[0] == "+") for one in (core, known))
    return is_within(come, known_come) if come and known_come else is_within(core, known)


def _told(replaced: str) -> str:
    """What the log says of the passes together: what one puts in and another takes away is neither."""
    words = set(replaced.split())
    gone, come = ({word[1:] for word in words if word[0] == sign} for sign in "-+")
    return " ".join([*_signed("-", Counter(gone - come)), *_signed("+", Counter(come - gone))])


def _operators(case: Case, config: Config, judge: Judge) -> Counter[str] | None:
    model = judge.executor.optimised(case, config)
    return Counter(node.op_type for node in walk_nodes(model.graph)) if model is not None else None


def _signed(sign: str, operators: Counter[str]) -> list[str]:
    return [f"{sign}{name}" for name in sorted(operators.elements()) if name != "Constant"]
