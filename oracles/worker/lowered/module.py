"""An ONNX program as a torch module: straight-line code of the lowerings in `torch_ops`.

What the table does not have is refused by `Unsupported`.
"""

from __future__ import annotations

import io
import os
import signal
from typing import Any

import torch

from oracles.worker.lowered.elementwise import DTYPES, ELEMENTWISE
from oracles.worker.lowered.layout import LAYOUT
from oracles.worker.lowered.lowering import Function, Lowering, Op
from oracles.worker.lowered.networks import NETWORKS
from oracles.worker.lowered.reductions import REDUCTIONS
from oracles.worker.onnx.domain import DOMAIN
from oracles.worker.onnx.program import fed_names
from oracles.worker.torch.tensors import Unsupported, to_torch

TABLE: dict[str, Lowering] = {**ELEMENTWISE, **REDUCTIONS, **LAYOUT, **NETWORKS}


def call(op: Op) -> Function:
    """The operator as a function of its tensors; attributes are its other arguments, by their names."""
    overload = overload_of(op)
    places = overload._schema.arguments
    given = {
        place.name: converted(place, op.get(place.name)) for place in places if op.get(place.name) is not None
    }
    names = [place.name for place in places if is_tensor(place)]
    listed = next((place.name for place in places if is_list_of_tensors(place)), None)

    def run(*tensors: Any) -> Any:
        if listed is not None:
            arguments = {**given, listed: list(tensors)}
        else:
            arguments = {**given, **dict(zip(names, tensors))}  # noqa: B905 (Python 3.8)
        ordered = [place for place in places if not place.kwarg_only]
        while ordered and ordered[-1].name not in arguments:
            ordered.pop()
        plain = [arguments.pop(place.name, place.default_value) for place in ordered]
        return overload(*plain, **arguments)

    return run


def overload_of(op: Op) -> Any:
    """The overload for this number of tensors and attributes of these names."""
    packet = getattr(torch.ops.aten, op.name, None)
    if packet is None:
        raise Unsupported(f"operator {op.name} has no lowering to torch: aten has none of this name")
    for name in packet.overloads():
        overload = getattr(packet, name)
        if fits(overload._schema, op):
            return overload
    raise Unsupported(f"{op.name}: no lowering for {len(op.values)} tensors and {sorted(op.attributes)}")


def fits(schema: Any, op: Op) -> bool:
    """Whether each tensor and each attribute has a place, and each place that needs one a value."""
    places = schema.arguments
    tensors = [place for place in places if is_tensor(place)]
    is_listed = any(map(is_list_of_tensors, places))
    others = {place.name: place for place in places if not is_tensor(place) and not is_list_of_tensors(place)}
    if not set(op.attributes) <= set(others) or any(place.is_out for place in places):
        return False
    if not all(holds(others[name], value) for name, value in op.attributes.items()):
        return False
    if len(op.values) > len(tensors) and not is_listed:
        return False
    missing = [place for place in tensors[len(op.values) :] if not is_listed]
    left = [place for name, place in others.items() if name not in op.attributes]
    return all(place.has_default_value() for place in (*missing, *left))


def holds(place: Any, value: Any) -> bool:
    """Whether a place takes such a value: a list only where it is of lists."""
    return "List" in str(place.type) or not isinstance(value, (list, tuple))


def is_tensor(place: Any) -> bool:
    """Say whether a place of the schema takes a tensor."""
    return str(place.type) in ("Tensor", "Optional[Tensor]")


def is_list_of_tensors(place: Any) -> bool:
    """Say whether a place of the schema takes several tensors."""
    return str(place.type) == "List[Tensor]"


def converted(place: Any, value: Any) -> Any:
    """An attribute as the schema has it."""
    kind = str(place.type)
    if isinstance(value, bytes):
        return value.decode()
    if "bool" in kind:
        return bool(value)
    return list(value) if isinstance(value, (list, tuple)) else value


def build(model: Any, inputs: dict[str, Any], *, lenient: bool = False) -> tuple[Any, list[Any]]:
    """The module, and the values to call it with.

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
    """The module as an exported program leaves it that was saved and loaded again."""
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
    """A node's lowering; raises `Unsupported`. Torch's own operators need none."""
    if node.domain == DOMAIN:
        return call
    if node.domain not in ("", "ai.onnx") or node.op_type not in TABLE:
        raise Unsupported(f"operator {node.domain}{node.op_type} has no lowering to torch")
    return TABLE[node.op_type]


def evaluated(function: Any, operands: list[Any], *, lenient: bool) -> Any:
    """A node's value; `lenient`, what torch itself fails on is for compiled code to find out.

    Then it is the value on ones, of the same dtypes and shapes: what decides shapes is in `function` already.
    """
    if lenient and not survives(function, operands):
        operands = [None if each is None else torch.ones_like(each) for each in operands]
    return function(*operands)


def survives(function: Any, operands: list[Any]) -> bool:
    """Whether a call returns, tried in a process of its own where integers could end this one.

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
