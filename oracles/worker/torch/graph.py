"""A torch program that is data, turned into a module again and run (`torch_data` is the way there)."""

import base64
import json
import re
from typing import Any

import numpy as np
import torch

from oracles.worker.torch.allowed import is_method
from oracles.worker.torch.data import STORED, NotData, from_torch, is_property, resolve, to_torch


def read_module(program: bytes, inputs: dict[str, Any]) -> tuple[Any, list[Any], list[str]]:
    """The module of a program's bytes, what to call it with, and its outputs' names."""
    document = json.loads(program)
    main = document["main"]
    return to_module(document)[0], feeds(inputs, main["inputs"]), main["outputs"]


def to_module(program: dict[str, Any], double: bool = False, device: str = "cpu") -> tuple[Any, list[str]]:
    """The GraphModule and the names of its inputs; `double` computes in float64 wherever it is in floats."""
    weights: dict[str, Any] = {}
    held = []
    for index, (name, item) in enumerate(program["constants"].items()):
        value = constant(*item)
        weights[f"w{index}"] = (widened(value) if double else value).to(device)
        held.append((name, f"w{index}"))
    return to_graph(program["main"], weights, held, double), [item[0] for item in program["main"]["inputs"]]


def to_graph(graph_data: Any, held: dict[str, Any], constants: list[tuple[str, str]], double: bool) -> Any:
    """A graph of data as a GraphModule that holds these tensors; the graphs inside it become its children."""
    graph = torch.fx.Graph()
    places = {item[0]: graph.placeholder(f"x{at}") for at, item in enumerate(graph_data["inputs"])}
    places.update({name: graph.get_attr(attribute) for name, attribute in constants})

    def graph_node(inner: Any) -> Any:
        name = f"g{len(held)}"
        held[name] = to_graph(inner, {}, [], double)
        return graph.get_attr(name)

    for name, op, args, kwargs in graph_data["bindings"]:
        given = tuple(value_of(item, places, double, graph_node) for item in args)
        keyed = {key: value_of(item, places, double, graph_node) for key, item in kwargs.items()}
        if not op.startswith("Tensor."):
            places[name] = graph.call_function(resolve(op), given, keyed)
        elif is_property(op[7:]):
            places[name] = graph.call_function(getattr, (*given, op[7:]))
        else:
            places[name] = graph.call_method(method(op[7:]), given, keyed)
    results = tuple(places[name] for name in graph_data["outputs"])
    graph.output(results[0] if graph_data.get("facts", {}).get("single") else results)
    graph.lint()
    return torch.fx.GraphModule(held, graph)


def method(name: str) -> str:
    """A method's name; NotData for one that does more than compute."""
    if not is_method(name):
        raise NotData(f"{name[:80]!r} is no method of tensors")
    return name


def value_of(item: Any, places: dict[str, Any], double: bool, graph_node: Any) -> Any:
    """The argument that a tagged JSON value spells; `graph_node` makes a node of a graph."""

    def inside(value: Any) -> Any:
        return value_of(value, places, double, graph_node)

    if isinstance(item, list):
        return [inside(each) for each in item]
    if not isinstance(item, dict):
        return item
    ((tag, inner),) = item.items()
    if tag == "ref":
        return places[inner]
    if tag == "dtype":
        found = dtype(inner)
        return torch.float64 if double and found.is_floating_point else found
    if tag in ("tuple", "slice"):
        items = inside(inner)
        return tuple(items) if tag == "tuple" else slice(*items)
    if tag == "dict":
        return {inside(key): inside(each) for key, each in inner}
    if tag == "graph":
        return graph_node(inner)
    return SIMPLE[tag](inner)


def dtype(name: str) -> Any:
    """torch's dtype of that name; NotData where it has none."""
    return of_torch(name, torch.dtype)


def of_torch(name: Any, kind: Any) -> Any:
    """Return torch's dtype, layout or memory format of this name; NotData if there is none of this kind."""
    found = vars(torch).get(name) if isinstance(name, str) else None
    if not isinstance(found, kind):
        raise NotData(f"{name!r:.40} is no {kind.__name__} of torch")
    return found


SIMPLE: dict[str, Any] = {
    "float": float,
    "ellipsis": lambda inner: ...,
    "complex": lambda inner: complex(float(inner[0]), float(inner[1])),
    "device": lambda inner: torch.device("cpu" if inner != "meta" else "meta"),
    "layout": lambda inner: of_torch(inner, torch.layout),
    "memory": lambda inner: of_torch(inner, torch.memory_format),
}


def constant(name: str, shape: list[int], data: str) -> Any:
    """Make a tensor of its dtype, shape and base64 bytes."""
    raw = base64.b64decode(data)
    kind = dtype(name)
    if not raw:
        return torch.zeros(shape, dtype=kind)
    return torch.frombuffer(bytearray(raw), dtype=kind).reshape(shape)


def widened(value: Any) -> Any:
    """Hold floats as float64."""
    return value.double() if value.is_floating_point() else value


def encoded(value: Any) -> list[Any]:
    """A tensor as a document keeps it."""
    plain = value.detach().cpu().contiguous()
    raw = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return [str(plain.dtype).split(".")[-1], list(plain.shape), base64.b64encode(raw).decode("ascii")]


def feeds(values: dict[str, Any], inputs: list[Any], double: bool = False, device: str = "cpu") -> list[Any]:
    """Tensors to call the module with, each its own, laid out in memory as their inputs say."""
    found = [to_torch(values[item[0]], STORED) for item in inputs]
    wide = [(widened(value) if double else value).to(device) for value in found]
    pairs = zip(wide, inputs)  # noqa: B905 (Python 3.8)
    return [laid_out(value, item[3]["layout"]) if len(item) > 3 else value for value, item in pairs]


def laid_out(value: Any, layout: list[list[int]]) -> Any:
    """A copy of a tensor under a layout: its dims from the outermost, with a gap at each; 0 repeats one."""
    strides, length = [0] * value.dim(), 1
    for dim, gap in reversed(layout):
        strides[dim] = length * gap
        length = max(strides[dim] * max(value.shape[dim], 1), length)
    base = value[tuple(slice(0, 1) if not gap else slice(None) for _, gap in sorted(layout))]
    copy = torch.empty_strided(base.shape, strides, dtype=value.dtype, device=value.device).copy_(base)
    return copy.as_strided(value.shape, strides)


def layout_of(value: Any) -> list[list[int]]:
    """Describe a tensor's memory layout in words that fit other sizes too; empty for the usual one.

    A layout that has no such words (overlapping windows) counts as usual.
    """
    if value.layout is not torch.strided or value.is_contiguous() or value.is_quantized:
        return []
    strides = value.stride()
    order = sorted(range(value.dim()), key=lambda dim: (-strides[dim], dim))
    found, length = [], 1
    for dim in reversed(order):
        if strides[dim] % length and value.shape[dim] > 1:
            return []
        gap = strides[dim] // length if value.shape[dim] > 1 else 1
        found.append([dim, gap])
        length = max(length * gap * value.shape[dim], length)
    return found[::-1]


def evaluate(module: Any, given: list[Any], fake: Any = None) -> list[Any]:
    """Run a graph operator by operator: every binding's value, copied as it was made.

    Constants become fake ones where there is a mode for it.
    """
    waiting = iter(given)
    known: dict[Any, Any] = {}
    made: list[Any] = []
    for node in module.graph.nodes:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda other: known[other])
        if node.op == "placeholder":
            known[node] = next(waiting)
        elif node.op == "get_attr":
            value = getattr(module, node.target)
            is_held = fake is None or not isinstance(value, torch.Tensor)
            known[node] = value if is_held else fake.from_tensor(value)
        elif node.op != "output":
            function = getattr(args[0], node.target) if node.op == "call_method" else node.target
            value = function(*(args[1:] if node.op == "call_method" else args), **kwargs)
            known[node] = value
            made.append(value.clone() if isinstance(value, torch.Tensor) else value)
    return made


def named(document: dict[str, Any], made: list[Any]) -> dict[str, Any]:
    """The values of the first bindings by their names."""
    bindings = document["main"]["bindings"]
    return {bindings[index][0]: value for index, value in enumerate(made)}


def results(names: list[str], values: Any) -> dict[str, Any]:
    """The results as tensors: a tuple's members by their names, numbers as tensors."""
    found: dict[str, Any] = {}
    for index, name in enumerate(names):
        value = values[index]
        if isinstance(value, torch.Tensor):
            found[name] = from_torch(value.cpu())
        elif isinstance(value, (list, tuple)):
            tensors = [from_torch(each.cpu()) for each in value if isinstance(each, torch.Tensor)]
            found[name] = [each for each in tensors if isinstance(each, np.ndarray)]
        else:
            found[name] = np.asarray(value)
    return found


def dynamic_dims(document: dict[str, Any]) -> list[tuple[int, int]]:
    """The symbolic dims of inputs: (which input, which dim)."""
    shapes = [item[2] for item in document["main"]["inputs"]]
    return [(at, dim) for at, shape in enumerate(shapes) for dim, size in enumerate(shape) if is_text(size)]


def is_text(item: Any) -> bool:
    """Say whether an item is a string."""
    return isinstance(item, str)


def held(document: dict[str, Any], module: Any) -> dict[str, Any]:
    """The constants in a module by their names."""
    return {name: getattr(module, f"w{index}") for index, name in enumerate(document["constants"])}


def written(document: dict[str, Any], module: Any, given: list[Any]) -> list[str]:
    """The inputs and constants that a program writes to, found out on fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    if not any(may_write(op, kwargs) for _, op, _, kwargs in document["main"]["bindings"]):
        return []
    names = [item[0] for item in document["main"]["inputs"]]
    try:
        with FakeTensorMode() as mode, torch.no_grad():
            fakes = [mode.from_tensor(value) for value in given]
            constants = {name: mode.from_tensor(value) for name, value in held(document, module).items()}
            before = {**dict(zip(names, fakes)), **constants}  # noqa: B905 (Python 3.8)
            versions = {name: value._version for name, value in before.items()}
            evaluate(module, fakes, mode)
    except Exception:  # what is fake cannot do everything; what fails really fails again when it runs
        return []
    return [name for name, value in before.items() if value._version != versions[name]]


def may_write(op: str, kwargs: dict[str, Any]) -> bool:
    """Whether an operator's name leaves room for a change of what it reads."""
    parts = op.split(".")
    has_mark = any(part.endswith("_") and not part.endswith("__") for part in parts)
    return has_mark or parts[-1] in ("setitem", "out") or "out" in kwargs or "_norm" in op


def describe(program: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    """Run a program on fake tensors; return the type of each binding, or why it is ill-formed.

    A dim is a text if it follows from symbolic dims of the inputs. `numbers` are the bindings that give a
    number and no tensor.
    """
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    document = json.loads(program)
    made: list[Any] = []
    symbols: dict[Any, str] = {}
    try:
        module, _ = to_module(document)
        with FakeTensorMode(shape_env=ShapeEnv()) as mode, torch.no_grad():
            given = [faked(mode, inputs[item[0]], item[2], symbols) for item in document["main"]["inputs"]]
            made = evaluate(module, given, mode)
    except DataDependentOutputException:
        pass
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".split("\n")[0]}
    found = named(document, made)
    tensors = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
    numbers = [name for name, value in found.items() if isinstance(value, NUMBERS)]
    return {"types": {name: type_of(value, symbols) for name, value in tensors.items()}, "numbers": numbers}


NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
"""What stands for itself in the text of a program."""


def faked(mode: Any, given: Any, dims: list[Any], symbols: dict[Any, str]) -> Any:
    """A fake input of this dtype and shape; its symbolic dims are added to the symbols, by their own."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    kind, shape = given
    is_symbolic = [isinstance(dim, str) for dim in dims] if len(dims) == len(shape) else [False] * len(shape)
    if not any(is_symbolic):
        return torch.empty(shape, dtype=dtype(kind))
    sizes = [DimDynamic.DYNAMIC if each else DimDynamic.STATIC for each in is_symbolic]
    context = StatelessSymbolicContext(dynamic_sizes=sizes)
    with torch.utils._python_dispatch._disable_current_modes():
        value = torch.empty(shape, dtype=dtype(kind))
    found = mode.from_tensor(value, symbolic_context=context)
    for dim, text in zip(found.shape, dims):  # noqa: B905 (Python 3.8)
        if isinstance(dim, torch.SymInt) and str(text).isidentifier():
            symbols[dim.node.expr] = text
    return found


def type_of(value: Any, symbols: dict[Any, str]) -> list[Any]:
    """Dtype and dims; None for dims that depend on values."""
    dims = [dim_of(dim, symbols) for dim in value.shape]
    return [str(value.dtype).split(".")[-1], None if None in dims else dims]


def dim_of(dim: Any, symbols: dict[Any, str]) -> Any:
    """Write a dim as a number or an expression of the known symbols; None if it is neither."""
    if not isinstance(dim, torch.SymInt):
        return int(dim)
    expression = dim.node.expr
    if expression.free_symbols - symbols.keys():
        return None
    text = str(expression.xreplace({each: type(each)(name) for each, name in symbols.items()}))
    return None if CALL.search(text) else text


CALL = re.compile(r"\w\(|[^\w +*/()-]")
"""What stands in no arithmetic of whole numbers."""
