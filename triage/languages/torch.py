"""Programs of torch, as people see them."""

from dataclasses import dataclass
from functools import cached_property

from oracles.verdict import Config, Run
from triage.language import Language
from triage.reports.program_evidence import GraphEvidence
from triage.reports.sentences import RunEvidence
from triage.repro.source import printed_source, with_plain_names
from triage.views.graph_picture import drawn_graph


@dataclass(frozen=True)
class TorchEvidence(GraphEvidence):
    """A torch module; the reference is eager mode in float64."""

    witness = RunEvidence(
        "module",
        "torch (on fake tensors)",
        "eager mode in float64",
        "the module runs in eager mode in float64",
    )

    imports = ""

    @cached_property
    def reference(self) -> Run | None:
        """Eager mode in float64."""
        graphs = self.judge.backend.graphs_of(self.case.format)
        assert graphs is not None
        (run,) = self.judge.runs(self.case, (Config("eager, in float64", graphs.double),))
        return run

    @property
    def in_double(self) -> Run | None:
        """The reference, which is in float64 already."""
        return self.reference if self.reference and self.reference.is_ok else None


LANGUAGE = Language(
    evidence=TorchEvidence,
    source=lambda case, judge: printed_source(with_plain_names(case), judge),
    drawn=drawn_graph,
    relu="torch.relu",
)
