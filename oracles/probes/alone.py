"""One node of a program as a program of its own, on the values that flowed into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx

from corpus.onnx.graph import free_names
from corpus.onnx.types import element_type
from corpus.values import Value
from oracles.numerics.value_types import tensor_types
from oracles.sandbox.sandbox import Job

MOST_SHAPING = 64
"""Elements of an integer operand that may decide a shape: axes, dims, sizes."""


def node_alone(
    model: onnx.ModelProto, node: onnx.NodeProto, output: str, values: Mapping[str, Value], job: Job
) -> tuple[onnx.ModelProto, Job] | None:
    """The model that gives that output of the node, and the job; None where what it reads is not known."""
    operands = {name: values.get(name) for name in sorted(free_names(node))}
    if not all(isinstance(value, np.ndarray) for value in operands.values()):
        return None
    alone = onnx.ModelProto(ir_version=model.ir_version)
    alone.opset_import.extend(model.opset_import)
    alone.functions.extend(model.functions)
    graph = alone.graph
    graph.name = "alone"
    graph.node.append(node)
    for name, value in operands.items():
        assert isinstance(value, np.ndarray)
        graph.input.append(onnx.helper.make_tensor_value_info(name, element_type(value.dtype), value.shape))
    graph.output.append(onnx.ValueInfoProto(name=output))
    return alone, replace(job, program=alone.SerializeToString(), inputs=operands, external=(), outputs=None)


def type_alone(
    model: onnx.ModelProto, node: onnx.NodeProto, output: str, values: Mapping[str, Value], job: Job
) -> onnx.TypeProto.Tensor | None:
    """The type that inference gives the node's output where what decides its shape is known by value."""
    found = node_alone(model, node, output, values, job)
    if found is None:
        return None
    alone, its_job = found
    shaping = {
        name: value
        for name, value in its_job.inputs.items()
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size <= MOST_SHAPING
    }
    kept = [declared for declared in alone.graph.input if declared.name not in shaping]
    del alone.graph.input[:]
    alone.graph.input.extend(kept)
    alone.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in shaping.items()
    )
    return tensor_types(alone).get(output)
