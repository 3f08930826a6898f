"""An ONNX program as a torch module: straight-line code of the lowerings in `torch_ops`.

What the table does not have is refused by `Unsupported`.
"""

import io
import json
import operator
import os
import signal
from typing import Any, Callable, Sequence  # noqa: UP035 (Python 3.8)

import torch

from oracles.worker.lowered.layout import LAYOUT
from oracles.worker.lowered.networks import DTYPES, ELEMENTWISE, NETWORKS, REDUCTIONS
from oracles.worker.onnx import DOMAIN, Lowering, Op, Unsupported, fed_names, read_model
from oracles.worker.torch.data import called_there, from_torch, placed, to_torch
from oracles.worker.torch.graph import constant

TABLE: dict[str, Lowering] = {**ELEMENTWISE, **REDUCTIONS, **LAYOUT, **NETWORKS}


class OverloadCall:
    """An operator as a function of its tensors; attributes are its other arguments, by their names."""

    def __init__(self, op: Op) -> None:
        self.overload = overload_of(op)
        self.places = self.overload._schema.arguments
        given = [place for place in self.places if op.get(place.name) is not None]
        self.given = {place.name: converted(place, op.get(place.name)) for place in given}

    def __call__(self, *tensors: Any) -> Any:
        """The results."""
        args, kwargs = self.arranged(tensors)
        return self.overload(*args, **kwargs)

    def arranged(self, tensors: Sequence[Any]) -> "tuple[tuple[Any, ...], dict[str, Any]]":
        """The overload's arguments, with tensors or with what stands for them in a graph."""
        arguments = {**self.given, **by_place(self.places, tensors)}
        ordered = [place for place in self.places if not place.kwarg_only]
        while ordered and ordered[-1].name not in arguments:
            ordered.pop()
        return tuple(arguments.pop(place.name, place.default_value) for place in ordered), arguments


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
    if len(op.values) < len(tensors) if is_listed else len(op.values) > len(tensors):
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
    return str(place.type) in ("List[Tensor]", "List[Optional[Tensor]]")


def by_place(places: Sequence[Any], tensors: Sequence[Any]) -> dict[str, Any]:
    """The tensors by the names of their places, in order; a list takes those that no other place needs."""
    taking = [place for place in places if is_tensor(place) or is_list_of_tensors(place)]
    at = next((at for at, place in enumerate(taking) if is_list_of_tensors(place)), None)
    if at is None:
        return dict(zip([place.name for place in taking], tensors))  # noqa: B905 (Python 3.8)
    end = len(tensors) - (len(taking) - at - 1)
    shared = [*tensors[:at], list(tensors[at:end]), *tensors[end:]]
    return dict(zip([place.name for place in taking], shared))  # noqa: B905 (Python 3.8)


def converted(place: Any, value: Any) -> Any:
    """An attribute as the schema has it."""
    kind = str(place.type)
    if isinstance(value, bytes):
        return value.decode()
    if "ScalarType" in str(place.real_type):
        return DTYPES[value]
    if "bool" in kind:
        return bool(value)
    return list(value) if isinstance(value, (list, tuple)) else value


def run_model(
    program: Any,
    inputs: dict[str, Any],
    settings: dict[str, Any],
    outputs: Any,
    enter: Callable[[str], None],
    backend: str = "eager",
) -> dict[str, Any]:
    """Lower one model (bytes or a path) and run it, by a backend of `torch.compile`; its outputs by name."""
    model = read_model(program)
    if settings.get("show") == "source":
        return source(model, inputs)
    if backend == "eager":
        enter("execute")
    with torch.no_grad():
        module, feeds = build(model, inputs, lenient=backend != "eager")
        if settings.get("via") == "export":
            module = exported(module, feeds)
        module, feeds = placed(module, feeds, settings)
        if backend != "eager":
            from oracles.worker.torch.run import compiled, mark_dims

            module = compiled(module, backend, enter, mark_dims(named_dims([model]), feeds))
        values = called_there(module, feeds, settings, enter)
    names = [value.name for value in model.graph.output]
    wanted = names if outputs is None else outputs
    return {name: from_torch(values[names.index(name)]) for name in wanted}


def build(model: Any, inputs: dict[str, Any], *, lenient: bool = False) -> tuple[Any, list[Any]]:
    """The module, and the values to call it with.

    The nodes run once on the way: what decides a shape becomes a number of the program.
    """
    return build_together([(model, inputs)], lenient=lenient)


def build_together(programs: Any, *, lenient: bool = False) -> tuple[Any, list[Any]]:
    """One module of models, each with its inputs: it takes what all of them take, and gives what all give."""
    graph = torch.fx.Graph()
    values: list[dict[str, Any]] = []
    places: list[dict[str, Any]] = []
    feeds: list[Any] = []
    weights: dict[str, Any] = {}
    for model, inputs in programs:
        values.append({name: to_torch(inputs[name]) for name in fed_names(model.graph)})
        places.append({name: graph.placeholder(f"x{len(feeds) + at}") for at, name in enumerate(values[-1])})
        feeds += [value.clone() for value in values[-1].values()]
    results: list[Any] = []
    for (model, _), known, held in zip(programs, values, places):  # noqa: B905 (Python 3.8)
        for tensor in model.graph.initializer:
            name = f"w{len(weights)}"
            known[tensor.name] = weights[name] = of_proto(tensor)
            held[tensor.name] = graph.get_attr(name)
        for node in model.graph.node:
            add(node, graph, known, held, version_of(model), lenient=lenient)
        results += [held[value.name] for value in model.graph.output]
    graph.output(tuple(results))
    return torch.fx.GraphModule(weights, graph), feeds


def named_dims(models: Sequence[Any]) -> list[tuple[int, int]]:
    """The dims that have a name in what a module of these models takes: (which input, which dim)."""
    found: list[tuple[int, int]] = []
    given = 0
    for model in models:
        declared = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
        for place, name in enumerate(fed_names(model.graph), given):
            found += [(place, at) for at, dim in enumerate(declared[name]) if dim.dim_param]
            given = place + 1
    return found


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
    made = noted(graph, function, [places[name] if name else None for name in node.input])
    several = isinstance(found, (tuple, list))
    for index, name in enumerate(node.output):
        if name:
            values[name] = found[index] if several else found
            places[name] = graph.call_function(operator.getitem, (made, index)) if several else made


def noted(graph: Any, function: Any, given: list[Any]) -> Any:
    """Write a call down; an overload's by its arguments, so that dynamo need not follow how they are made."""
    if isinstance(function, OverloadCall):
        return graph.call_function(function.overload, *function.arranged(given))
    return graph.call_function(function, tuple(given))


def lowering_of(node: Any) -> Any:
    """A node's lowering; raises `Unsupported`. Torch's own operators need none."""
    if node.domain == DOMAIN:
        return OverloadCall
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


def source(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """A model's text as `graph_source.source` gives it, of the graph that dynamo makes of its module."""
    from oracles.worker.torch.capture import Given, by_dynamo, by_dynamo_with_dims
    from oracles.worker.torch.graph_source import source as text_of

    with torch.no_grad():
        module, feeds = build(model, inputs, lenient=True)
    dims = named_dims([model])
    document = (by_dynamo_with_dims if dims else by_dynamo)(Given(module, feeds, {}, dims))
    given = {name: from_torch(constant(*item)) for name, item in document["inputs"].items()}
    return text_of(json.dumps(document).encode(), given)
