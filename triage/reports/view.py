"""What `issue.md` says, part by part: the names of the fields are those that the forms use."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from triage.bugs.known import KnownIssue
from triage.projects import Project
from triage.reports.checklist import Check
from triage.reports.sentences import Row

Shows = tuple[str, str, str]
"""What was varied, with what the failure shows, with what it does not."""


@dataclass(frozen=True)
class Head:
    """The title with the checklist, whose form it is, under which labels it is filed, what it is known as."""

    form: Project
    title: str
    checks: tuple[Check, ...]
    labels: tuple[str, ...]
    known: KnownIssue | None

    @property
    def missing(self) -> tuple[str, ...]:
        """List what keeps it from being ready."""
        return tuple(check.text for check in self.checks if check.is_needed and not check.holds)


@dataclass(frozen=True)
class Claimed:
    """The event and the expectation, a sentence or two each."""

    happened: str
    expected: str
    outcome: str
    package: str


@dataclass(frozen=True)
class Program:
    """The program as text in a language and as a picture; `sequence` are passes that it runs itself."""

    noun: str
    nodes: int
    is_onnx: bool
    listing: str
    language: str
    inputs: str
    graph: str
    attached: tuple[str, ...]
    sequence: tuple[str, ...]


@dataclass(frozen=True)
class Evidence:
    """The evidence: each configuration's result, the values that differ and where they part; or the trace.

    `error` is what an exception says in full, whether or not the short script shows it as well.
    """

    levels: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    passing: str
    failing: str
    divergence: str
    errors: str
    trace: str
    error: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Varied:
    """Under what the failure shows and under what it does not, on which releases, and what to disable."""

    varies: tuple[Shows, ...]
    releases: tuple[tuple[str, str], ...]
    advice: str


@dataclass(frozen=True)
class Steps:
    """The way to run the scripts, and their output.

    `short` is empty if only the long one, `whole`, shows the bug.
    """

    needs: str
    printed: str
    short: str
    short_printed: str
    short_is_long: bool
    whole: str


@dataclass(frozen=True)
class Provenance:
    """The origin: where it was seen, how it was found; `extra` is the machine by the project's own tool."""

    environment: Mapping[str, str]
    extra: str
    found: str
    origin: str


@dataclass(frozen=True)
class IssueView:
    """All that a form is filled with."""

    head: Head
    claimed: Claimed
    program: Program
    evidence: Evidence
    varied: Varied
    steps: Steps
    provenance: Provenance

    def names(self) -> dict[str, Any]:
        """Every field of every part by its name, as templates ask for them; no two parts share one."""
        parts = [getattr(self, part.name) for part in fields(self)]
        found = {each.name: getattr(part, each.name) for part in parts for each in fields(part)}
        assert len(found) == sum(len(fields(part)) for part in parts)
        return {**found, "missing": self.head.missing}
