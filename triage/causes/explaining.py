"""Is a new failure one that we have? A few checks say so before anything is reduced.

A bug of passes explains a failure that holds what the passes replace, may be its effect, and goes away with
the bug's passes disabled. A bug of a kernel explains a crash if the un-optimised program, run node by node,
dies in the same operator with the same kind of values. What nothing explains is worth its reduction.

A symptom is kept as text (`oracles.verdict.Symptom`): outcome, phase, kind, site, message, side.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from corpus.case import Case
from oracles.judge import Judge
from oracles.verdict import Config, Outcome, Verdict
from reducer.pass_sets import core_of, failing_config, is_within
from triage.causes.cores import Sites, share_a_kernel
from triage.language import model_of

SEPARATOR = " | "
_OF_MEMORY = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS"})
_STRUCTURAL = ("shape", "dtype")
"""Kinds of wrong results over which any later node may stumble."""


def names_itself(symptom: str, passes: tuple[str, ...] = ()) -> bool:
    """Whether an equal symptom of an equal release is the same bug, before anything is reduced.

    It is where the un-optimised program or an importer says it: what an operator gives against what it
    declares, an exception, the native function of a crash. What only optimised programs show may follow from
    any pass, unless the known bug needs none of those (`passes`) that can be disabled.
    """
    outcome, phase, *rest = [*symptom.split(SEPARATOR), ""]
    is_optimised = "optimised" in rest
    if outcome == "mismatch":  # kind, operator, side; another wrong value has its wrong side for an operator
        return len(rest) == len(("kind", "operator", "side", "")) and rest[2] == "un-optimised"
    said = [word for word in rest if word not in ("", "optimised", "un-optimised")]
    is_told = outcome in ("exception", "crash") and len(said) > 1
    return is_told and (phase == "import" or not is_optimised or not passes)


_DTYPE = re.compile(r"\b(?:bfloat|float|u?int|complex)\d+\b|\bbool\b")


def says_the_same(symptom: str, known: str) -> bool:
    """Whether two symptoms are equal.

    Exceptions may name other dtypes, as one check does of each. They may show un-optimised alone or
    everywhere: an optimiser that drops what fails is no other bug.
    """
    if symptom == known:
        return True
    is_told = symptom.startswith("exception") and known.startswith("exception")
    return is_told and _bare(symptom) == _bare(known)


def _bare(symptom: str) -> str:
    return _DTYPE.sub("*", symptom.removesuffix(f"{SEPARATOR}un-optimised"))


def may_follow(symptom: str, known: str) -> bool:
    """Whether a failure may be the effect of a bug that shows as `known`, the passes being the same.

    Equal symptoms may; so may two kinds of wrong values, and what raises or dies over a wrong shape or dtype.
    """
    if symptom == known:
        return True
    (outcome, kind), (other, known_kind) = outcome_and_kind(symptom), outcome_and_kind(known)
    if other != "mismatch":
        return False
    if known_kind in _STRUCTURAL:
        return outcome != "mismatch" or kind == known_kind
    return outcome == "mismatch" and kind not in _STRUCTURAL


def is_one_damage(symptom: str, known: str) -> bool:
    """Whether two crashes ended in one signal, or in any of those by which damaged memory shows."""
    (_, signal), (_, other) = outcome_and_kind(symptom), outcome_and_kind(known)
    return signal == other or {signal, other} <= _OF_MEMORY


def outcome_and_kind(symptom: str) -> tuple[str, str]:
    """The outcome and the kind of a symptom."""
    parts = [*symptom.split(SEPARATOR), "", ""]
    return parts[0], parts[2]


VERSION = 4
MOST_CHECKS = 3
"""Verdicts that explaining may cost, beside that on the failure itself."""


@dataclass(frozen=True)
class Bug:
    """A reduced failure as what may explain others: `key` is whatever names it to the caller.

    `shown` are the symptoms that its failures had, each with the release that had it; `core` are the
    operators that its passes took away (`-Div`) and put in (`+Div`), where that is known.
    """

    key: int
    name: str
    case: Case
    outcome: str
    passes: tuple[str, ...]
    shown: frozenset[tuple[str, str]] = frozenset()
    core: str = ""

    @cached_property
    def operators(self) -> Counter[str]:
        """The operators of the reduced case, constants left out."""
        return Counter(op for op in self.case.measure.ops if op != "Constant")

    @cached_property
    def needed(self) -> Counter[str]:
        """The operators that its passes take away, where that is known, else all: the rest is context."""
        gone = Counter(word[1:] for word in self.core.split() if word.startswith("-"))
        return gone if self.core and gone <= self.operators else self.operators

    def may_rewrite(self, core: str) -> bool:
        """Whether what the passes replace in a program holds what they replace in this bug.

        One pass may be wrong in two ways. True where nothing shows what is replaced.
        """
        return is_within(self.core, core)

    def is_in(self, held: Counter[str]) -> bool:
        """Whether a program of these operators holds what the bug needs."""
        return self.needed <= held

    def may_be_in(self, held: Counter[str], symptom: str) -> bool:
        """Whether it may show in such a program: an exception in equal words may at other operators too."""
        said = self.outcome == Outcome.EXCEPTION.value and any(symptom == each for each, _ in self.shown)
        return said or self.is_in(held)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The bug that explains a failure, if one does; why, in words; and the checks that it took."""

    bug: Bug | None
    why: str
    checks: int

    def evidence(self) -> dict[str, Any]:
        """The explanation as it is kept beside the failure."""
        return {"version": VERSION, "checks": self.checks, "why": self.why}


def operators_of(case: Case) -> Counter[str]:
    """The operators of a program, those within a model's own functions included."""
    held = Counter(case.measure.ops)
    held.update(node.op_type for function in model_of(case).functions for node in function.node)
    return held


def by_symptom(symptom: str, release: str, held: Counter[str], bugs: Sequence[Bug]) -> Explanation | None:
    """The bug that says the same of itself on the same release, at no check; None where there is none."""
    is_of_any = symptom.startswith("mismatch")
    for bug in bugs:  # some symptoms hold for a family of operators, whichever the program has
        told = any(says_the_same(symptom, known) for known, where in bug.shown if where == release)
        tells = told and names_itself(symptom, bug.passes)
        if tells and (is_of_any or _holds(held, bug)):
            return Explanation(bug, f"it says what {bug.name} says, in the same place", 0)
    return None


def _holds(held: Counter[str], bug: Bug) -> bool:
    """Whether a program holds the bug's operators, or one that shares the kernel's base with its only one."""
    if bug.is_in(held) or bug.outcome != Outcome.CRASH.value or bug.operators.total() != 1:
        return bug.is_in(held)
    (known,) = bug.operators
    return any(share_a_kernel(operator, known) for operator in held)


def explain(
    case: Case, verdict: Verdict, bugs: Sequence[Bug], judge: Judge, sites: Sites | None = None
) -> Explanation:
    """The bug that explains a failing case, by at most `MOST_CHECKS` verdicts.

    Bugs of the failure's own outcome go before others, larger ones before smaller ones: they say more.
    """
    held, symptom = operators_of(case), str(verdict.symptom or "")
    fitting = [bug for bug in bugs if bug.may_be_in(held, symptom) or _holds(held, bug)]
    fitting.sort(key=lambda bug: (bug.outcome != verdict.outcome.value, -bug.operators.total(), bug.key))
    found = _by_passes(case, verdict, [bug for bug in fitting if bug.passes], judge)
    if found.bug is None and verdict.outcome is Outcome.CRASH:
        dying = [bug for bug in fitting if not bug.passes and _dies_alike(symptom, bug)]
        return _by_kernel(case, dying, sites or Sites(judge), found.checks)
    return found


def _dies_alike(symptom: str, bug: Bug) -> bool:
    shown = bug.outcome == Outcome.CRASH.value
    return shown and (not bug.shown or any(is_one_damage(symptom, each) for each, _ in bug.shown))


def _by_passes(case: Case, verdict: Verdict, bugs: Sequence[Bug], judge: Judge) -> Explanation:
    """The passes of what may have this effect, of those that changed the program, set by set."""
    config, symptom = failing_config(verdict, judge), str(verdict.symptom or "")
    fitting = [
        bug for bug in bugs if not bug.shown or any(may_follow(symptom, each) for each, _ in bug.shown)
    ]
    if not fitting or config is None or judge.backend.passes is None:
        return Explanation(None, "no known bug of passes has this effect on operators of this program", 0)
    sets = list(dict.fromkeys(bug.passes for bug in fitting))
    checks = 0
    if len(sets) > 1:
        checks += 1
        changed = frozenset(judge.backend.passes.suspects(judge.runs(case, (config,), collect_log=True)[0]))
        sets = [passes for passes in sets if changed.issuperset(passes)]
    for passes in sets[: MOST_CHECKS - checks]:
        checks += 1
        if _shows(case, verdict, config, passes, judge):
            continue
        core = core_of(case, verdict, passes, judge)
        bug = next((bug for bug in fitting if bug.passes == passes and bug.may_rewrite(core)), None)
        if bug is not None:
            why = f"it goes away with {' + '.join(passes)} disabled, as {bug.name} does"
            return Explanation(bug, why, checks)
    return Explanation(None, "it shows with the passes of the likeliest known bugs disabled", checks)


def _shows(case: Case, verdict: Verdict, config: Config, disabled: Sequence[str], judge: Judge) -> bool:
    assert judge.backend.passes is not None
    without = judge.backend.passes.without(config, disabled)
    return judge.verdict(case, only=without).symptom == verdict.symptom


def _by_kernel(case: Case, bugs: Sequence[Bug], sites: Sites, checks: int) -> Explanation:
    if not bugs:
        return Explanation(None, "no known crash of a kernel has operators that this program holds", checks)
    checks += sites.costs(case)
    site = sites.of(case)
    if site is None:
        return Explanation(None, "no node of the un-optimised program crashes by itself", checks)
    for bug in bugs:
        if site.is_like(sites.of(bug.case)):
            what = f"{site.operator} of {', '.join(site.dtypes)}"
            return Explanation(bug, f"un-optimised it dies in {what}, as {bug.name} does", checks)
    return Explanation(None, f"it dies in {site.operator}, unlike the known crashes", checks)


def counting(found: Explanation, checks: int) -> Explanation:
    """Add the checks of the verdict that the explanation began with."""
    return replace(found, checks=found.checks + checks)
