"""An ONNX program as a torch module: straight-line code of the lowerings in `torch_ops`.

What the table does not have is refused by `Unsupported`.

The module runs once on fake tensors, which have shapes and no values, so that nothing it computes can fail or
end the process; every call of torch is recorded as it passes by, with plain numbers for what decides shapes.
"""

import io
import operator
import os
import signal
from typing import Any, Callable, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode, resolve_name

from oracles.worker.lowered.layout import LAYOUT
from oracles.worker.lowered.networks import DTYPES, ELEMENTWISE, NETWORKS, REDUCTIONS
from oracles.worker.onnx import DOMAIN, Lowering, Op, Unsupported, fed_names, read_model
from oracles.worker.torch.data import called_there, from_torch, placed, to_torch
from oracles.worker.torch.graph_source import INDENT, listed, literal, needed, written

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


INFIX = {
    **{"add": "+", "sub": "-", "mul": "*", "div": "/", "__truediv__": "/", "lt": "<", "gt": ">", "eq": "=="},
    **{"__and__": "&", "__or__": "|", "__lt__": "<", "__gt__": ">", "__eq__": "==", "__add__": "+"},
    **{"__sub__": "-", "__mul__": "*", "le": "<=", "ge": ">=", "ne": "!=", "__radd__": "+", "__rmul__": "*"},
}


class Recorder(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Writes down every call that makes tensors: what is assigned to, the expression, what it reads."""

    def __init__(self, named: Any) -> None:
        super().__init__()
        self.names: dict[int, str] = {id(tensor): name for name, tensor in named.items()}
        self.kept = list(named.values())
        self.given = len(self.kept)
        self.constants: dict[str, Any] = {}
        self.calls: list[tuple[str, str, set[str]]] = []
        self.read: set[str] = set()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        results = made if isinstance(made, (tuple, list)) else [made]
        if not results or not all(isinstance(each, torch.Tensor) for each in results):
            return made
        if all(id(each) in self.names for each in results):  # it has handed on its operands
            return made
        self.read = set()
        text = self.call(function, args, kwargs or {})
        target = ", ".join(map(self.name, results)) + ("," if results is made and len(results) == 1 else "")
        self.calls.append((target, text, self.read))
        return made

    def name(self, tensor: Any) -> str:
        """A new name for what a call has made; kept alive, so that its id stays its own."""
        if id(tensor) not in self.names:
            self.names[id(tensor)] = f"t{len(self.kept) - self.given}"
            self.kept.append(tensor)
        return self.names[id(tensor)]

    def call(self, function: Any, args: Any, kwargs: Any) -> str:
        """Write a call of torch as Python."""
        path = str(resolve_name(function) or f"{function.__module__}.{function.__name__}")
        path = path.replace("torch.functional.", "torch.").replace("torch.nn.functional.", "F.")
        path = f"torch.ops.{path}" if path.startswith("aten.") else path
        texts = [self.text(each) for each in args]
        named = [f"{key}={self.text(value)}" for key, value in kwargs.items()]
        owner, _, name = path.rpartition(".")
        if owner != "torch.Tensor" and not owner.startswith("torch.Tensor."):
            return f"{path}({', '.join([*texts, *named])})"
        if name == "__get__":
            return f"{texts[0]}.{owner.rpartition('.')[2]}"
        if name == "__getitem__":
            return f"{texts[0]}[{self.index(args[1])}]"
        if name in INFIX and len(texts) == 2 and not named:
            left, right = reversed(texts) if name.startswith("__r") else texts
            return f"{left} {INFIX[name]} {right}"
        return f"{texts[0]}.{name}({', '.join([*texts[1:], *named])})"

    def index(self, place: Any) -> str:
        """Write a subscript as Python."""
        if isinstance(place, tuple) and place:
            return ", ".join(map(self.index, place))
        if not isinstance(place, slice):
            return self.text(place)
        ends = ["" if each is None else str(each) for each in (place.start, place.stop)]
        return ":".join(ends if place.step in (None, 1) else [*ends, str(place.step)])

    def text(self, value: Any) -> str:
        """An argument as Python: a tensor's name, or a literal."""
        if isinstance(value, torch.Tensor):
            name = self.names.get(id(value)) or self.constant(value)
            self.read.add(name)
            return name
        if isinstance(value, (tuple, list)):
            inner = ", ".join(map(self.text, value))
            is_list = isinstance(value, list)
            return f"[{inner}]" if is_list else f"({inner}{',' if len(value) == 1 else ''})"
        return str(value) if isinstance(value, torch.dtype) else repr(value)

    def constant(self, value: Any) -> str:
        """A tensor that no call has made: a lowering has brought it along."""
        name = f"self.c{len(self.constants)}"
        self.constants[name] = value
        self.names[id(value)] = name
        return name


def source(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """`module`: a class `Repro` of torch.nn.Module; `inputs`: the list of what to call it with."""
    with torch.no_grad():
        module, feeds = build(model, inputs, lenient=True)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    arguments = [fake.from_tensor(feed) for feed in feeds]
    weights = {f"self.{name}": tensor for name, tensor in module.named_buffers()}
    for name, tensor in weights.items():
        setattr(module, name[5:], fake.from_tensor(tensor))
    faked = {f"self.{name}": tensor for name, tensor in module.named_buffers()}
    named = {f"x{place}": tensor for place, tensor in enumerate(arguments)}
    with torch.no_grad(), fake, Recorder({**named, **faked}) as recorder:
        results = module(*arguments)
    names = [recorder.names.get(id(each)) or recorder.constant(each) for each in results]
    text = written(list(named), {**weights, **recorder.constants}, needed(recorder.calls, names), names)
    literals = [f"{literal(feed, INDENT)},  # x{place}" for place, feed in enumerate(feeds)]
    dims = np.array(named_dims([model]), np.int64).reshape(-1, 2)
    return {"module": np.array(text), "inputs": np.array(listed(literals)), "dims": dims}
