"""Modules of TVM's PrimFuncs, as people see them."""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from corpus.case import Case
from corpus.outputs import put
from corpus.tir.program import canonical, parse
from corpus.tir.script import entered, print_text
from corpus.values import Value
from generators.tir.programs import can_start
from oracles.judge import Judge
from oracles.probes.context import INTERPRETER
from oracles.probes.tir_context import interpretation_of
from oracles.verdict import Config, Phase, Run, Status, Verdict
from triage.cases.patterns import Document
from triage.language import Language
from triage.reports.program_evidence import GraphEvidence
from triage.reports.sentences import RunEvidence
from triage.repro.source import Source
from triage.views.graph_picture import drawn_loops

FOLDER = "loops"
"""Where they are, below the folder of the patterns."""


@dataclass
class LoopSeeds:
    """PrimFuncs as they are found; two that differ in names alone are one."""

    found: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def keep(self, documents: Iterable[Document], out: Path) -> None:
        """Write those documents that are new, and can be started from, below a folder."""
        for document in documents:
            self.counts["loops"] += 1
            module = parse(document.case.program, document.case.origin)
            digest = hashlib.sha256(canonical(module)).hexdigest()[:16]
            if digest in self.found:
                self.counts["loops left out: seen before"] += 1
            elif not can_start(module):
                self.counts["loops left out: no buffer of static dims and a plain type"] += 1
            else:
                self.found.add(digest)
                put(out / FOLDER / f"{digest}.tir.json", document.case.program)

    def facts(self) -> dict[str, Any]:
        """Count what was seen and kept."""
        return {**self.counts, "loops_kept": len(self.found)} if self.counts else {}


CONFIG = Config(INTERPRETER, backend="interpreter")
MOST_VALUES = 64
"""Values of an array that are written out one by one."""


@dataclass(frozen=True)
class TirEvidence(GraphEvidence):
    """A module of PrimFuncs; the reference is an interpreter that does not use TVM."""

    witness = RunEvidence(
        "module",
        "TVM (`s_tir.analysis.verify_well_formed`)",
        "an interpreter of the loops in Python",
        "an interpreter of the loops, independent of TVM, runs the module",
    )

    @cached_property
    def reference(self) -> Run | None:
        """Interpret it; None for a program that is undefined or not modelled."""
        found = interpretation_of(self.case.program, self.case.inputs)
        if found.reason:
            return None
        return Run(Config(INTERPRETER), Status.OK, Phase.EXECUTE, outputs=dict(found.outputs))


def _source(case: Case, judge: Judge) -> Source:
    """A module of PrimFuncs as TVMScript, and what its first function is called with, in order."""
    module = entered(parse(case.program))
    lines = [f"{_literal(case.inputs[item.name])},  # {item.name}" for item in module.main.params]
    return Source(print_text(module).rstrip(), "\n".join(lines), module.entry)


def _literal(value: Value) -> str:
    """An array's bits as an expression; a number as itself."""
    array = np.asarray(value)
    name = array.dtype.name
    if not array.ndim and array.dtype.kind in "biuf":
        return repr(array.item())
    if array.dtype.kind in "biuf" and array.size <= MOST_VALUES:
        return f"np.array({array.tolist()!r}, {name!r}).reshape({list(array.shape)})"
    kind = repr(name) if array.dtype.kind in "biuf" else f"__import__('ml_dtypes').{name}"
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return f"np.frombuffer(base64.b64decode({data!r}), {kind}).reshape({list(array.shape)})"


def interpreted(case: Case, verdict: Verdict) -> Run | None:
    """The interpreter's run, to compare with; None where runs differ among themselves or it knows too little.

    Only outputs that are defined throughout are told.
    """
    wrong = verdict.wrong
    if wrong is None or wrong.truth != INTERPRETER or len(verdict.runs) != 1:
        return None
    found = interpretation_of(case.program, case.inputs)
    outputs = {name: value for name, value in found.outputs.items() if found.defined[name].all()}
    if set(outputs) != set(found.outputs):
        return None
    return Run(CONFIG, Status.OK, Phase.EXECUTE, outputs=outputs)


LANGUAGE = Language(
    evidence=TirEvidence,
    source=_source,
    drawn=lambda module, seen: drawn_loops(module),
    interpreted=interpreted,
    extraction=lambda firing, judge, most: LoopSeeds(),
)
