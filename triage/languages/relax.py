"""Relax programs of TVM, as people see them."""

import re
from dataclasses import dataclass, replace

from corpus.case import Case
from corpus.graphs.program import GraphProgram, PrimFunc
from corpus.tir.script import function_lines
from oracles.judge import Judge
from triage.cases.graph_patterns import GraphExtraction
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


LANGUAGE = Language(
    evidence=RelaxEvidence,
    source=source,
    drawn=drawn_graph,
    operators=operators,
    extraction=lambda firing, judge, most: GraphExtraction(judge, most),
    relu="relax.nn.relu",
)
