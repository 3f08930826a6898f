"""Programs of torch, as people see them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from oracles.judge import Judge
from oracles.run import Config, Run
from triage.language import Language
from triage.reports.program_evidence import GraphEvidence
from triage.reports.sentences import RunEvidence
from triage.repro.source import Source, printed_source, with_plain_names
from triage.views.drawn import drawn_graph


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


def _source(case: Case, judge: Judge) -> Source:
    return printed_source(with_plain_names(case), judge)


def _written(model: Any, inputs: Any, folder: Path) -> tuple[str, bool] | None:
    """A module of the torch that the caller has imported (crux imports none), exported, or such a program."""
    torch: Any = sys.modules.get("torch")
    is_module = torch is not None and isinstance(model, torch.nn.Module)
    if type(model).__module__.split(".")[0] != "torch" and not is_module:
        return None
    if is_module:
        if inputs is None or isinstance(inputs, Mapping | Path | str):
            raise UserError("a torch module needs the tensors that it is called with: give them as a tuple")
        model = torch.export.export(model, tuple(inputs))
    path = folder / "model.pt2"
    torch.export.save(model, path)
    return str(path), True


LANGUAGE = Language(
    exhibit=TorchEvidence, source=_source, drawn=drawn_graph, written=_written, relu="torch.relu"
)
