"""An ONNX program as a torch module: straight-line code of the lowerings in `torch_ops`."""

from __future__ import annotations

import io
import os
import signal
from typing import Any

import torch

from oracles.in_worker.lowered.aten import call
from oracles.in_worker.lowered.elementwise import DTYPES
from oracles.in_worker.lowered.lowering import Op
from oracles.in_worker.lowered.table import TABLE
from oracles.in_worker.onnx.domain import DOMAIN
from oracles.in_worker.onnx.program import fed_names
from oracles.in_worker.torch.tensors import Unsupported, to_torch


def build(model: Any, inputs: dict[str, Any], *, lenient: bool = False) -> tuple[Any, list[Any]]:
    """Return the module, and the values to call it with.

    The nodes run once on the way: what decides a shape becomes a number of the program.
    """
    names = fed_names(model.graph)
    values = {name: to_torch(inputs[name]) for name in names}
    feeds = [values[name].clone() for name in names]
    graph = torch.fx.Graph()
    places = {name: graph.placeholder(f"x{index}") for index, name in enumerate(names)}
    weights: dict[str, Any] = {}
    for index, tensor in enumerate(model.graph.initializer):
        values[tensor.name] = weights[f"w{index}"] = of_proto(tensor)
        places[tensor.name] = graph.get_attr(f"w{index}")
    for node in model.graph.node:
        add(node, graph, values, places, version_of(model), lenient=lenient)
    graph.output(tuple(places[value.name] for value in model.graph.output))
    return torch.fx.GraphModule(weights, graph), feeds


def exported(module: Any, feeds: list[Any]) -> Any:
    """Return the module as an exported program leaves it that was saved and loaded again."""
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, tuple(feeds)), file)
    file.seek(0)
    return torch.export.load(file).module()


def add(
    node: Any, graph: Any, values: dict[str, Any], places: dict[str, Any], opset: int, *, lenient: bool
) -> None:
    """Lower one node: run it, and write it down."""
    operands = [values[name] if name else None for name in node.input]
    op = Op(node.op_type, attributes_of(node), operands, opset, len(node.output))
    function = lowering_of(node)(op)
    found = evaluated(function, operands, lenient=lenient)
    made = graph.call_function(function, tuple(places[name] if name else None for name in node.input))
    several = isinstance(found, (tuple, list))
    for index, name in enumerate(node.output):
        if name:
            values[name] = found[index] if several else found
            places[name] = graph.call_function(pick, (made, index)) if several else made


def lowering_of(node: Any) -> Any:
    """Return a node's lowering; raises `Unsupported`. Torch's own operators need none."""
    if node.domain == DOMAIN:
        return call
    if node.domain not in ("", "ai.onnx") or node.op_type not in TABLE:
        raise Unsupported(f"operator {node.domain}{node.op_type} has no lowering to torch")
    return TABLE[node.op_type]


def evaluated(function: Any, operands: list[Any], *, lenient: bool) -> Any:
    """Return a node's value; `lenient`, what torch itself fails on is for compiled code to find out.

    Then it is the value on ones, of the same dtypes and shapes: what decides shapes is in `function` already.
    """
    if lenient and not survives(function, operands):
        operands = [None if each is None else torch.ones_like(each) for each in operands]
    return function(*operands)


def survives(function: Any, operands: list[Any]) -> bool:
    """Return whether a call returns, tried in a process of its own where integers could end this one.

    A process that has started the GPU is never forked: there, what could end it is not tried.
    """
    if not any(each is not None and not each.is_floating_point() for each in operands):
        return True
    if torch.cuda.is_initialized():
        return False
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        for fatal in (signal.SIGFPE, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL):
            signal.signal(fatal, signal.SIG_DFL)
        function(*operands)
        status = 0
    finally:
        os._exit(status)


def pick(values: Any, index: int) -> Any:
    """Give one of an operator's several results."""
    return values[index]


def attributes_of(node: Any) -> dict[str, Any]:
    """Give a node's attributes by name; tensors as torch's."""
    from onnx import TensorProto, helper

    found = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    tensors = {name: value for name, value in found.items() if isinstance(value, TensorProto)}
    return {**found, **{name: of_proto(tensor) for name, tensor in tensors.items()}}


def of_proto(tensor: Any) -> Any:
    """Make torch's tensor of an ONNX one. Raises Unsupported for a dtype that torch lacks."""
    from onnx import numpy_helper

    array = numpy_helper.to_array(tensor)
    if tensor.data_type not in DTYPES and array.dtype.name not in ("uint16", "uint32", "uint64"):
        raise Unsupported(f"torch takes no weight of dtype {array.dtype.name}")
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16").copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def version_of(model: Any) -> int:
    """Give the version of ONNX's own operator set."""
    return max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=1)
