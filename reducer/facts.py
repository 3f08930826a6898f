"""Learning the type and value of every tensor: shape inference, and one run of the un-optimised backend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import onnx
from onnx import TensorProto

from corpus.case import Case
from oracles.record import Recording
from reducer.subject import Facts, Subject
from reducer.tensors import type_of

Record: TypeAlias = Callable[[Case], Recording]
"""Runs a case un-optimised and gives the value of every tensor of its main graph that it came to."""

SMALL_TENSOR = 64
"""Initializers with more elements carry no shapes: shape inference sees only their type."""


def learn(subject: Subject, record: Record, like: Case) -> tuple[Subject, str]:
    """The subject with fresh facts, and the name of the node at which its run breaks (empty if none)."""
    recording = record(subject.case(like))
    facts = Facts(infer_types(subject.model), recording.values)
    return replace(subject, facts=facts), recording.crashed_at or ""


def infer_types(model: onnx.ModelProto) -> Mapping[str, onnx.TypeProto]:
    """The types of the main graph's tensors as far as shape inference tells them; weights are not copied."""
    graph = inferred(model).graph
    types = {info.name: info.type for info in (*graph.value_info, *graph.output) if info.HasField("type")}
    return {name: known for name, known in types.items() if known.WhichOneof("value")}


def inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without large weights, with every type that shape inference finds, in bodies too."""
    light = without_weights(model)
    try:
        return onnx.shape_inference.infer_shapes(light, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return light


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which large initializers are typed inputs, so that it is cheap to make and to infer."""
    light = onnx.ModelProto(ir_version=max(model.ir_version, 4), functions=model.functions)
    light.opset_import.extend(model.opset_import)
    graph, old = light.graph, model.graph
    graph.name = old.name or "graph"
    graph.node.extend(old.node)
    graph.input.extend(old.input)
    graph.output.extend(onnx.ValueInfoProto(name=info.name) for info in old.output)
    declared = {info.name for info in old.input}
    for tensor in old.initializer:
        if math.prod(tensor.dims) <= SMALL_TENSOR and tensor.data_location != TensorProto.EXTERNAL:
            graph.initializer.append(tensor)
        elif tensor.name not in declared:
            declared.add(tensor.name)
            graph.input.append(_declaration(tensor))
    return light


def _declaration(tensor: TensorProto) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def static_type(subject: Subject, name: str) -> onnx.TypeProto | None:
    """A tensor's type with the dims that it had when it was recorded."""
    return type_of(subject.facts.values.get(name)) or subject.type_of(name)
