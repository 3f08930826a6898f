"""A case's program as a report shows it and has it checked: one class for each kind of format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import onnx

from corpus.case import Case
from corpus.formats import find_format
from corpus.formats.onnx import parse
from corpus.onnx.check import checker_complaint
from corpus.target import Target
from oracles.judge import Judge
from oracles.numerics.float64_model import inputs_in_double, program_in_double
from oracles.probes.tir_context import INTERPRETER, interpretation_of
from oracles.run import Config, Phase, Run, Status
from triage.reports.sentences import OF_ONNX, RunEvidence
from triage.repro.normal_form import messages, normal_form
from triage.repro.source import Source
from triage.views.drawn import DrawnGraph, drawn
from triage.views.listing import list_model
from triage.views.rendering import render

REMARKS = {"doc_string", "metadata_props", "producer_name", "producer_version", "model_version"}


class ProgramEvidence(Protocol):
    """The evidence that a report shows of a program, and the implementations that it asks."""

    witness: RunEvidence
    language: str

    @property
    def listing(self) -> str:
        """The program as text, in that language."""

    @property
    def drawn(self) -> DrawnGraph:
        """The program as pictures are made of it."""

    @property
    def complaint(self) -> str | None:
        """Say why it is no valid program."""

    @property
    def reference(self) -> Run | None:
        """Run it on an independent implementation; None if there is none."""

    @property
    def in_double(self) -> Run | None:
        """The un-optimised run in float64; None where that cannot be had."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """The program in the files of a report, the one to name first."""

    def is_built(self, model: bytes) -> bool | None:
        """Whether what a script has built is this program; None where it builds none to be compared."""


def exhibit(case: Case, judge: Judge, source: Source | None) -> ProgramEvidence:
    """Return the exhibit of a case whose program has this source where it is not ONNX's own."""
    if case.format == "onnx":
        return OnnxEvidence(case, judge, is_code=source is None)
    assert source is not None
    kinds: dict[str, type[TorchEvidence | RelaxEvidence | TirEvidence]]
    kinds = {"torch": TorchEvidence, "tir": TirEvidence}
    kind = kinds.get(case.format, RelaxEvidence)
    return kind(case, judge, source)


def without_remarks(case: Case) -> Case:
    """Return the case without documentation and metadata, which can hold an author's paths."""
    case = replace(case, origin="", notes=())
    if case.format != "onnx":
        return case
    model = onnx.ModelProto()
    model.CopyFrom(case.parsed)
    for message in messages(model):
        for field in REMARKS & set(message.DESCRIPTOR.fields_by_name):
            message.ClearField(field)
    model.ClearField("domain")
    return replace(case, program=model.SerializeToString(deterministic=True))


@dataclass(frozen=True)
class OnnxEvidence:
    """An ONNX model; `is_code` where a script builds it as one."""

    case: Case
    judge: Judge
    is_code: bool

    witness = OF_ONNX
    language = "text"

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The parsed model."""
        model: onnx.ModelProto = self.case.parsed
        return model

    @cached_property
    def listing(self) -> str:
        """ONNX's text form, with the types that inference can tell."""
        return list_model(self.model)

    @cached_property
    def drawn(self) -> DrawnGraph:
        """The graph as it is."""
        return drawn(self.case)

    @cached_property
    def complaint(self) -> str | None:
        """Return the words of the checker with strict shape inference."""
        return checker_complaint(self.model)

    @cached_property
    def reference(self) -> Run | None:
        """Run it on ONNX's reference evaluator."""
        with Judge(Target("reference"), limits=self.judge.limits) as judge:
            return judge.runs(self.case, judge.configs[:1])[0]

    @cached_property
    def in_double(self) -> Run | None:
        """The un-optimised run of the model with its floats in float64, if that is possible."""
        program = program_in_double(self.model) if not self.judge.configs[0].backend else None
        if program is None:
            return None
        inputs = inputs_in_double(self.case.inputs)
        wide = replace(self.case, program=program.SerializeToString(deterministic=True), inputs=inputs)
        (run,) = self.judge.runs(wide, self.judge.configs[:1])
        return run if run.is_ok else None

    @property
    def files(self) -> Mapping[str, bytes]:
        """The model alone."""
        return {"model.onnx": self.case.program}

    def is_built(self, model: bytes) -> bool | None:
        """Compare the models in one form, since two encodings may be one model."""
        if not self.is_code:
            return None
        return bool(model) and normal_form(parse(model)) == normal_form(self.model)


@dataclass(frozen=True)
class GraphEvidence:
    """A program of bindings, shown as the code that its framework's users write."""

    case: Case
    judge: Judge
    source: Source

    language = "python"

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
        """Return the framework's words when it builds the program."""
        return str(self._described["error"]) if "error" in self._described else None

    @cached_property
    def _described(self) -> Mapping[str, Any]:
        return self.judge.executor.describe(self.case.program, self.case.inputs)

    @property
    def files(self) -> Mapping[str, bytes]:
        """Return the program as a script that defines `model` and `inputs`, and in crux's own form."""
        script = render("program.py.j2", source=self.source, format=self.case.format)
        return {"program.py": script.encode(), find_format(self.case.format).program_file: self.case.program}

    def is_built(self, model: bytes) -> bool | None:
        """Return None: such scripts hold the program as code."""
        return None


@dataclass(frozen=True)
class TorchEvidence(GraphEvidence):
    """A torch module; the reference is eager mode in float64."""

    witness = RunEvidence(
        "module",
        "torch (on fake tensors)",
        "eager mode in float64",
        "the module runs in eager mode in float64",
    )

    @cached_property
    def reference(self) -> Run | None:
        """Eager mode in float64."""
        graphs = self.judge.backend.graphs
        assert graphs is not None
        (run,) = self.judge.runs(self.case, (Config("eager, in float64", graphs.double),))
        return run

    @property
    def in_double(self) -> Run | None:
        """The reference, which is in float64 already."""
        return self.reference if self.reference and self.reference.is_ok else None


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


@dataclass(frozen=True)
class TirEvidence(GraphEvidence):
    """A module of PrimFuncs; the reference is an interpreter that does not use TVM."""

    witness = RunEvidence(
        "module",
        "TVM's parser, which refuses ill-formed modules",
        "an interpreter of the loops in Python",
        "an interpreter of the loops, independent of TVM, runs the module",
    )

    @cached_property
    def drawn(self) -> DrawnGraph:
        """Draw its stores and bindings as nodes."""
        return drawn(self.case)

    @property
    def complaint(self) -> str | None:
        """Return None: reading the tree has checked it."""
        return None

    @cached_property
    def reference(self) -> Run | None:
        """Interpret it; None for a program that is undefined or not modelled."""
        found = interpretation_of(self.case.program, self.case.inputs)
        if found.reason:
            return None
        return Run(Config(INTERPRETER), Status.OK, Phase.EXECUTE, outputs=dict(found.outputs))

    @property
    def in_double(self) -> Run | None:
        """Return None: nothing runs it in float64."""
        return None
