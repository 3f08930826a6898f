"""A case's program as a report shows it and has it checked; each language says how."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from corpus.case import Case
from corpus.formats import find_format
from oracles.judge import Judge
from oracles.verdict import Run
from triage.language import language_of, list_case
from triage.reports.sentences import RunEvidence
from triage.repro.source import Source
from triage.views.graph_picture import DrawnGraph, drawn
from triage.views.rendering import render


def exhibit(case: Case, judge: Judge, source: Source | None) -> "ProgramEvidence":
    """The exhibit of a case whose program has this source, None where a script builds it by itself."""
    make: Callable[..., Any] = language_of(case.format).evidence or ProgramEvidence
    found: ProgramEvidence = make(case, judge, source)
    return found


@dataclass(frozen=True)
class ProgramEvidence:
    """The evidence that a report shows of a program, and the implementations that it asks.

    This one is of a language of which nothing else is known: the program as crux prints it.
    """

    case: Case
    judge: Judge
    source: Source | None

    witness: ClassVar[RunEvidence] = RunEvidence(
        "program", "crux", "an implementation of its own", "it is well-formed"
    )
    language: ClassVar[str] = "text"

    @property
    def listing(self) -> str:
        """The program as text, in that language."""
        return list_case(self.case).rstrip()

    @property
    def drawn(self) -> DrawnGraph:
        """The program as pictures are made of it."""
        return drawn(self.case)

    @property
    def complaint(self) -> str | None:
        """Say why it is no valid program."""
        return None

    @property
    def reference(self) -> Run | None:
        """Run it on an independent implementation; None if there is none."""
        return None

    @property
    def in_double(self) -> Run | None:
        """The un-optimised run in float64; None where that cannot be had."""
        return None

    @property
    def files(self) -> Mapping[str, bytes]:
        """The program in the files of a report, the one to name first."""
        return {find_format(self.case.format).program_file: self.case.program}

    def is_built(self, model: bytes) -> bool | None:
        """Whether what a script has built is this program; None where it builds none to be compared."""
        return None


@dataclass(frozen=True)
class GraphEvidence(ProgramEvidence):
    """A program of bindings, shown as the code that its framework's users write."""

    source: Source

    language = "python"
    imports: ClassVar[str] = "import base64\n\nimport numpy as np\nimport tvm\nfrom tvm import relax"
    """What stands at the head of the script of a module of TVM."""

    @property
    def listing(self) -> str:
        """The code that the framework prints."""
        return self.source.module.rstrip()

    @cached_property
    def drawn(self) -> DrawnGraph:
        """The bindings as nodes, with the types that a worker tells."""
        return drawn(self.case, self._described.get("types"))

    @cached_property
    def complaint(self) -> str | None:
        """The framework's words when it builds the program."""
        return str(self._described["error"]) if "error" in self._described else None

    @cached_property
    def _described(self) -> Mapping[str, Any]:
        return self.judge.executor.describe(self.case.program, self.case.inputs)

    @property
    def files(self) -> Mapping[str, bytes]:
        """The program as a script that defines `model` and `inputs`, and in crux's own form."""
        script = render("program.py.j2", source=self.source, imports=self.imports)
        return {"program.py": script.encode(), **super().files}
