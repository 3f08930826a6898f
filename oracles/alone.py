"""One node of a program as a program of its own, on the values that flowed into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx

from corpus.onnx_graph import free_names
from corpus.onnx_types import element_type
from corpus.values import Value
from oracles.sandbox import Job


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
