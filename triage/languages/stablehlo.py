"""Modules of StableHLO, as people see them: the text that MLIR prints."""

from dataclasses import dataclass
from functools import cached_property

from corpus.formats import find_format
from oracles.verdict import Config, Run
from triage.language import Language
from triage.reports.program_evidence import GraphEvidence
from triage.reports.sentences import RunEvidence
from triage.views.graph_picture import drawn_graph

REFERENCE = "StableHLO's interpreter in float64"


@dataclass(frozen=True)
class ModuleEvidence(GraphEvidence):
    """A module of StableHLO; the reference is the interpreter that jaxlib brings, in float64."""

    witness = RunEvidence("module", "MLIR's verifier", REFERENCE, f"{REFERENCE} runs the module")

    language = "mlir"

    @property
    def listing(self) -> str:
        """The module's text."""
        return str(self._described.get("text", "")).rstrip()

    @cached_property
    def reference(self) -> Run | None:
        """The interpreter in float64; None where it is not there, or does not run the module."""
        graphs = self.judge.backend.graphs_of(self.case.format)
        if graphs is None or "interpret" not in dict(graphs.double):
            return None
        config = Config(REFERENCE, graphs.double, backend=graphs.referee)
        (run,) = self.judge.runs(self.case, (config,))
        return run

    @property
    def in_double(self) -> Run | None:
        """The reference, which is in float64 already."""
        return self.reference if self.reference and self.reference.is_ok else None

    @property
    def files(self) -> dict[str, bytes]:
        """The module as text, and in crux's own form."""
        name = find_format(self.case.format).program_file
        return {"module.mlir": f"{self.listing}\n".encode(), name: self.case.program}


LANGUAGE = Language(evidence=ModuleEvidence, drawn=drawn_graph)
