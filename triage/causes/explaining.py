"""Is a new failure one that we have? A few checks say so before anything is reduced.

A bug of passes explains a failure that holds the bug's operators and goes away with the bug's passes
disabled. A bug of a kernel explains a crash if the un-optimised program, run node by node, dies in the same
operator with the same dtypes and values of the same class. What nothing explains is worth its reduction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpus.case import Case
from corpus.values import Value
from oracles.judge import Judge
from oracles.run import Config
from oracles.verdict import Outcome, Verdict
from reducer.pass_sets import failing_config
from reducer.subject.base import NodeSubject
from reducer.subjects import open_nodes

VERSION = 1
MOST_CHECKS = 3


@dataclass(frozen=True, slots=True)
class Bug:
    """A reduced failure as what may explain others: `key` is whatever names it to the caller."""

    key: int
    name: str
    case: Case
    outcome: str
    passes: tuple[str, ...]

    @property
    def operators(self) -> Counter[str]:
        """The operators of the reduced case, constants left out."""
        return Counter(op for op in self.case.measure.ops if op != "Constant")


@dataclass(frozen=True, slots=True)
class Explanation:
    """The bug that explains a failure, if one does; why, in words; and the checks that it took."""

    bug: Bug | None
    why: str
    checks: int

    def evidence(self) -> dict[str, Any]:
        """The explanation as it is kept beside the failure."""
        return {"version": VERSION, "checks": self.checks, "why": self.why}


@dataclass(frozen=True, slots=True)
class Site:
    """The node in which a process died: its operator, the dtypes that flow in, what is special of the values.

    `special` are words such as `1 holds zero`, the number being that of the operand.
    """

    operator: str
    dtypes: tuple[str, ...]
    special: frozenset[str]

    def is_like(self, known: Site | None) -> bool:
        """Whether a known site is the same one: all that is special there is special here."""
        if known is None or (self.operator, self.dtypes) != (known.operator, known.dtypes):
            return False
        return known.special <= self.special


def explain(case: Case, verdict: Verdict, bugs: Sequence[Bug], judge: Judge) -> Explanation:
    """The bug that explains a failing case, by at most `MOST_CHECKS` verdicts.

    Bugs of the failure's own outcome go before others, larger ones before smaller ones: they say more.
    """
    held = Counter(case.measure.ops)
    fitting = [bug for bug in bugs if bug.operators <= held]
    fitting.sort(key=lambda bug: (bug.outcome != verdict.outcome.value, -bug.operators.total(), bug.key))
    found = _by_passes(case, verdict, [bug for bug in fitting if bug.passes], judge)
    if found.bug is not None or verdict.outcome is not Outcome.CRASH:
        return found
    return _by_kernel(case, [bug for bug in fitting if not bug.passes], judge, found.checks)


def _by_passes(case: Case, verdict: Verdict, bugs: Sequence[Bug], judge: Judge) -> Explanation:
    """All the candidates' passes at once, then the likeliest by themselves."""
    config = failing_config(verdict, judge)
    if not bugs or config is None or judge.backend.passes is None:
        return Explanation(None, "no known bug of passes has operators that this program holds", 0)
    sets = list(dict.fromkeys(bug.passes for bug in bugs))
    checks = 0
    if len(sets) > 1:
        checks += 1
        if _shows(case, verdict, config, sorted({name for each in sets for name in each}), judge):
            return Explanation(None, "shows with the passes of every known bug disabled", checks)
    for passes in sets[: MOST_CHECKS - checks]:
        checks += 1
        if not _shows(case, verdict, config, passes, judge):
            bug = next(bug for bug in bugs if bug.passes == passes)
            return Explanation(
                bug, f"goes away with {' + '.join(passes)} disabled, as {bug.name} does", checks
            )
    return Explanation(None, "shows with the passes of the likeliest known bugs disabled", checks)


def _shows(case: Case, verdict: Verdict, config: Config, disabled: Sequence[str], judge: Judge) -> bool:
    assert judge.backend.passes is not None
    without = judge.backend.passes.without(config, disabled)
    return judge.verdict(case, only=without).symptom == verdict.symptom


def _by_kernel(case: Case, bugs: Sequence[Bug], judge: Judge, checks: int) -> Explanation:
    if not bugs:
        return Explanation(None, "no known crash of a kernel has operators that this program holds", checks)
    site = site_of_crash(case, judge)
    checks += 1
    if site is None:
        return Explanation(None, "no node of the un-optimised program crashes by itself", checks)
    for bug in bugs:
        if site.is_like(site_of_crash(bug.case, judge)):
            what = f"{site.operator} of {', '.join(site.dtypes)}"
            return Explanation(bug, f"the un-optimised program dies in {what}, as {bug.name} does", checks)
    return Explanation(None, f"it dies in {site.operator}, unlike the known crashes", checks)


def site_of_crash(case: Case, judge: Judge) -> Site | None:
    """The node that kills the un-optimised program when it runs node by node; None if none does."""
    opened = open_nodes(case, judge) if case.format == "onnx" else None
    if opened is None:
        return None
    subject, culprit = opened
    index = subject.producer.get(culprit)
    node = next((node for node in subject.nodes if culprit and culprit in (node.name, *node.output)), None)
    node = subject.nodes[index] if index is not None else node
    if node is None:
        return None
    flowing = {name: _value(subject, name) for name in node.input if name}
    dtypes = tuple(str(value.dtype) for value in flowing.values() if isinstance(value, np.ndarray))
    return Site(node.op_type, dtypes, special_values(flowing))


def _value(subject: NodeSubject, name: str) -> Value:
    found = subject.facts.values.get(name)
    return found if found is not None else subject.array(name)


def special_values(values: Mapping[str, Value]) -> frozenset[str]:
    """What is special of a node's operands, by position: empty, zero, the least integer, NaN, infinity."""
    found: set[str] = set()
    for position, value in enumerate(values.values()):
        if isinstance(value, np.ndarray):
            found.update(f"{position} {word}" for word in _special(value))
    return frozenset(found)


def _special(value: np.ndarray) -> list[str]:
    if value.size == 0:
        return ["is empty"]
    words = []
    if value.dtype.kind in "iu" and not value.all():
        words.append("holds zero")
    if value.dtype.kind == "i" and (value == np.iinfo(value.dtype).min).any():
        words.append("holds the least integer")
    if value.dtype.kind == "f" and np.isnan(value).any():
        words.append("holds NaN")
    if value.dtype.kind == "f" and np.isinf(value).any():
        words.append("holds infinity")
    return words
