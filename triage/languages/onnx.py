"""ONNX models, as people see them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import onnx
from onnx import TensorProto, numpy_helper

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.check import checker_complaint
from corpus.onnx.types import inferred_types, is_light, tensor_type
from corpus.target import Target
from oracles.judge import Judge
from oracles.numerics.input_noise import inputs_in_double, program_in_double
from oracles.sandbox.executor import job_of
from oracles.verdict import Run, Status
from triage.cases.patterns import Extraction
from triage.language import Language
from triage.reports.program_evidence import ProgramEvidence
from triage.reports.sentences import OF_ONNX
from triage.repro.model_code import messages, normal_form
from triage.views.graph_picture import DrawnGraph
from triage.views.listing import list_model

REMARKS = {"doc_string", "metadata_props", "producer_name", "producer_version", "model_version"}


@dataclass(frozen=True)
class OnnxEvidence(ProgramEvidence):
    """An ONNX model, which a script builds where it has no `source`."""

    witness = OF_ONNX

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
    def complaint(self) -> str | None:
        """The words of the checker with strict shape inference."""
        return checker_complaint(self.model)

    @cached_property
    def reference(self) -> Run | None:
        """Run it on ONNX's reference evaluator, as the rules do; where that takes long, without haste."""
        told = self.judge.executor.ask_referee(job_of(self.case, ()))
        if told.status is not Status.TIMEOUT:
            return told
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

    def is_built(self, model: bytes) -> bool | None:
        """Compare the models in one form, since two encodings may be one model."""
        if self.source is not None:
            return None
        return bool(model) and normal_form(parse(model)) == normal_form(self.model)


def _without_remarks(case: Case) -> Case:
    model = onnx.ModelProto()
    model.CopyFrom(case.parsed)
    for message in messages(model):
        for field in REMARKS & set(message.DESCRIPTOR.fields_by_name):
            message.ClearField(field)
    model.ClearField("domain")
    return replace(case, program=model.SerializeToString(deterministic=True))


def _read_on(case: Case) -> Iterator[Case]:
    """The model with an Identity that reads each of its outputs."""
    made = onnx.ModelProto()
    made.CopyFrom(case.parsed)
    for output in made.graph.output:
        inner, output.name = output.name, f"{output.name}_read"
        made.graph.node.add(op_type="Identity", input=[inner], output=[output.name])
    yield replace(case, program=made.SerializeToString(deterministic=True))


def _weights_apart(case: Case) -> tuple[Case, Case] | None:
    """A model of an Identity for each weight, and the model with its weights as inputs."""
    graph = _model(case).graph
    weights = {each.name: each for each in graph.initializer}
    if not weights or not all(
        is_light(each) and each.data_type != TensorProto.STRING for each in weights.values()
    ):
        return None
    alone, given = onnx.ModelProto(), onnx.ModelProto()
    alone.CopyFrom(case.parsed)
    alone.graph.CopyFrom(onnx.GraphProto(name=graph.name, initializer=graph.initializer))
    given.CopyFrom(case.parsed)
    del given.graph.initializer[:]
    for name in sorted(weights.keys() - {each.name for each in graph.input}):
        given.graph.input.add(name=name, type=tensor_type(weights[name]))
    for name, each in weights.items():
        alone.graph.node.add(op_type="Identity", input=[name], output=[f"{name}_read"])
        alone.graph.output.add(name=f"{name}_read", type=tensor_type(each))
    inputs = {**case.inputs, **{name: numpy_helper.to_array(each) for name, each in weights.items()}}
    return (
        replace(case, program=alone.SerializeToString(deterministic=True), inputs={}),
        replace(case, program=given.SerializeToString(deterministic=True), inputs=inputs),
    )


def _model(case: Case) -> onnx.ModelProto:
    model: onnx.ModelProto = case.parsed
    return model


LANGUAGE = Language(
    evidence=OnnxEvidence,
    listing=list_model,
    drawn=lambda model, seen: DrawnGraph(model.graph, inferred_types(model)),
    model=_model,
    has_model=True,
    complaint=checker_complaint,
    without_remarks=_without_remarks,
    read_on=_read_on,
    weights_apart=_weights_apart,
    extraction=Extraction,
)
