"""What the functions of the library return, besides cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .case import Case


def _in_html(title: str, facts: Mapping[str, object]) -> str:
    """A title over its facts, for a notebook; what is empty is left out."""
    from html import escape

    shown = {name: str(each) for name, each in facts.items() if each not in ("", ())}
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in shown.items())
    return f"<b>{escape(title)}</b><table>{rows}</table>"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case's judgement.

    `outcome`, `phase` and `symptom` are the words of `crux check --json`; `symptom` is what must stay while a
    case shrinks, empty for a pass. `title` is one line for a person. `is_bug` says whether a maintainer would
    want to hear of it. `notes` say what was repaired or set aside on the way. `document` is all that the
    database keeps of a verdict: its runs with their messages and traces, and what is wrong with a wrong
    result.
    """

    outcome: str
    phase: str
    title: str
    symptom: str
    is_bug: bool
    notes: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def _repr_html_(self) -> str:
        facts = {"outcome": self.outcome, "phase": self.phase, "symptom": self.symptom}
        return _in_html(self.title, {**facts, "notes": "; ".join(self.notes)})

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Verdict:
        """Read a verdict as the child tells it."""
        return cls(**{**document, "notes": tuple(document["notes"])})


@dataclass(frozen=True)
class Reduction:
    """The result of a reduction.

    `case` is the smallest case, `verdict` what it shows (None if a command decided). `is_minimal` says that
    no move makes it smaller, `nodes` counts nodes before and after, `passes` are the optimiser passes that
    the failure needs, `signature` names the bug, `checks` counts the runs of the predicate.
    """

    case: Case
    verdict: Verdict | None
    is_minimal: bool
    nodes: tuple[int, int]
    passes: tuple[str, ...]
    signature: str
    checks: int

    def _repr_html_(self) -> str:
        facts = {
            "nodes": f"{self.nodes[0]} → {self.nodes[1]}{', minimal' if self.is_minimal else ''}",
            "operators": ", ".join(self.case.measure.ops),
            "passes": ", ".join(self.passes),
            "signature": self.signature,
        }
        return _in_html(self.verdict.title if self.verdict else "reduced by a command", facts)


@dataclass(frozen=True)
class Check:
    """One line of the checklist: what was verified, or was not; `is_needed` for the report to be ready."""

    holds: bool
    text: str
    is_needed: bool = True


@dataclass(frozen=True)
class Report:
    """A written report; `ready` when every check holds that is needed for that.

    `known` names the known issue that the bug is, `issue` is its thread's address: such a report is for a
    comment there. With `not filed` for an address it is to file all the same. `newest` is the newest release
    that was tried, `fixed` the one that does not show the bug any more.
    """

    folder: Path
    archive: Path
    title: str
    ready: bool
    checks: tuple[Check, ...]
    signature: str
    known: str = ""
    issue: str = ""
    newest: str = ""
    fixed: str = ""

    @property
    def state(self) -> str:
        """`ready`, `known`, `fixed in` a release, or `not ready`."""
        if self.fixed:
            return f"fixed in {self.fixed}"
        is_filed = self.known and self.issue != "not filed"
        return "known" if is_filed else "ready" if self.ready else "not ready"

    def _repr_html_(self) -> str:
        checks = {("✓ " if each.holds else "✗ ") + each.text: " " for each in self.checks}
        facts = {"state": self.state, "folder": self.folder, "known": self.known, "issue": self.issue}
        return _in_html(self.title, {**facts, **checks})

    @property
    def missing(self) -> tuple[str, ...]:
        """List what keeps it from being ready."""
        return tuple(check.text for check in self.checks if check.is_needed and not check.holds)
