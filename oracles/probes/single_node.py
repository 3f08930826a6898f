"""A node as a model of its own, on what flowed into it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import onnx

from corpus.onnx.graph import free_names
from corpus.onnx.types import element_type
from corpus.values import Value
from oracles.numerics.input_noise import tensor_types
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


DEFINITION = "definition"
"""The domain under which an operator's own definition is called."""


def as_defined(alone: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model of one node with its operator written out as ONNX defines it; None where ONNX does not."""
    (node,) = alone.graph.node
    versions = {opset.domain: opset.version for opset in alone.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return None
    body = schema.function_body
    if not body.node:
        return None
    model = onnx.ModelProto()
    model.CopyFrom(alone)
    call = model.graph.node[0]
    given = {attribute.name for attribute in node.attribute}
    defaults = (each.default_value for name, each in schema.attributes.items() if name not in given)
    call.attribute.extend(default for default in defaults if default.type)
    call.domain = body.domain = DEFINITION
    absent = {formal for formal, name in zip_longest(body.input, call.input) if not name}
    for inner in body.node:
        inner.input[:] = ["" if name in absent else name for name in inner.input]
    body.input[:] = [formal for formal in body.input if formal not in absent]
    call.input[:] = filter(None, call.input)
    model.functions.append(body)
    model.opset_import.append(onnx.helper.make_opsetid(DEFINITION, 1))
    return model
