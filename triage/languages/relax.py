"""Relax programs of TVM, as people see them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.graphs.program import GraphProgram, PrimFunc
from corpus.pattern import GraphPattern
from corpus.tir.script import function_lines
from oracles.judge import Judge
from oracles.verdict import Run
from triage.cases.graph_patterns import GraphExtraction
from triage.cases.patterns import Document
from triage.language import Language
from triage.reports.program_evidence import GraphEvidence
from triage.reports.sentences import RunEvidence
from triage.repro.source import Source, printed_source, with_plain_names
from triage.views.graph_picture import drawn_graph


@dataclass(frozen=True)
class RelaxEvidence(GraphEvidence):
    """A Relax module. Only TVM runs it."""

    witness = RunEvidence(
        "module",
        "TVM (`relax.analysis.well_formed`)",
        "an implementation other than TVM",
        "TVM finds the module well-formed",
    )

    @property
    def reference(self) -> Run | None:
        """Return None: only TVM runs it."""
        return None

    @property
    def in_double(self) -> Run | None:
        """Return None: nothing runs it in float64."""
        return None


def source(case: Case, judge: Judge) -> Source:
    """The module as TVM prints it, but for its PrimFuncs, which crux prints itself."""
    named = with_plain_names(case)
    found = printed_source(_without_loops(named), judge)
    return replace(found, module=_with_loops(found.module, named))


def operators(case: Case) -> tuple[str, ...]:
    """Those of main and of the functions that it calls, in place of their calls."""
    program: GraphProgram = case.parsed
    graphs = (program.main, *program.functions.values())
    found = tuple(each.op for graph in graphs for each in graph.walk() if each.op != "call")
    return found or case.measure.ops


def _without_loops(case: Case) -> Case:
    """The case with its PrimFuncs empty: reading what TVM prints of their bodies may fold or refuse them."""
    program: GraphProgram = case.parsed
    if not program.loops:
        return case
    empty = {name: PrimFunc(replace(each.function, body=())) for name, each in program.loops.items()}
    return replace(case, program=replace(program, loops=empty).to_bytes())


def _with_loops(text: str, case: Case) -> str:
    """A module's text with the PrimFuncs that `_without_loops` has left empty, as crux writes them."""
    program: GraphProgram = case.parsed
    for name, each in program.loops.items():
        printed = "\n".join(f"    {line}" if line else "" for line in function_lines(name, each.function))
        wanted = rf"(?m)^    @T\.prim_func.*\n    def {re.escape(name)}\(.*\n(?:(?:     .*)?\n)*"
        found = re.search(wanted, f"{text}\n")
        if found is not None:
            text = f"{text[: found.start()]}{printed}\n\n{text[found.end() :]}"
    return text.rstrip() + "\n"


@dataclass
class _Extraction:
    """Patterns out of Relax programs; a judge of such is opened when the first one comes."""

    judge: Judge
    most: int
    graphs: GraphExtraction | None = None

    def keep(self, documents: Iterable[Document], out: Path) -> None:
        """Save the patterns that are new below a folder."""
        for document in documents:
            self.graphs = self.graphs or GraphExtraction(self.judge.of_format("relax"), self.most)
            for pattern in self.graphs.of([document]):
                pattern.save(out)

    @property
    def found(self) -> Mapping[str, GraphPattern]:
        """The patterns, by their digests."""
        return self.graphs.found if self.graphs is not None else {}

    def facts(self) -> dict[str, Any]:
        """Count what was seen and kept, if there were any such programs."""
        return self.graphs.facts() if self.graphs is not None else {}


LANGUAGE = Language(
    evidence=RelaxEvidence,
    source=source,
    drawn=drawn_graph,
    operators=operators,
    extraction=lambda firing, judge, most: _Extraction(judge, most),
    relu="relax.nn.relu",
)
