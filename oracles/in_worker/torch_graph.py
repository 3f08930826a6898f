"""A torch program as data: read out of an fx graph, and turned into a module again.

Operators are named as fx names them (`torch.ops.aten.add.Tensor`, `operator.floordiv`, `Tensor.mean`); only
functions of torch that compute are ever looked up by name.
"""

from __future__ import annotations

import base64
import json
import math
import operator
import types
from typing import Any

import numpy as np
import torch

from oracles.in_worker.torch_compiled import compiled
from oracles.in_worker.torch_program import from_torch, to_torch

HOMES = ("torch.functional", "torch.nn.functional", "torch._C", "_operator", "math", "torch._tensor")
"""Where the functions live that a program may name; `torch` itself only has built-in ones."""


class NotData(Exception):
    """A graph holds something that no data can say."""


# Out of fx


def to_data(module: Any) -> dict[str, Any]:
    """The bindings, outputs and held tensors of a GraphModule; its placeholders keep their nodes' names."""
    program: dict[str, Any] = {"bindings": [], "outputs": [], "constants": {}}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = attribute(module, node.target)
            if not isinstance(value, torch.Tensor):
                raise NotData("the graph holds other graphs (control flow), which crux does not take apart")
            program["constants"][node.name] = value
        elif node.op == "output":
            program["outputs"] = [each.name for each in flat(node.args[0]) if isinstance(each, torch.fx.Node)]
        elif node.op != "placeholder":
            args = [literal(item) for item in node.args]
            kwargs = {key: literal(item) for key, item in node.kwargs.items()}
            program["bindings"].append([node.name, name_of(node), args, kwargs])
    return program


def attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def flat(value: Any) -> list[Any]:
    """The leaves of lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [leaf for item in value.values() for leaf in flat(item)] if isinstance(value, dict) else [value]


def name_of(node: Any) -> str:
    """The name under which `resolve` finds the operator again."""
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    if node.op != "call_function":
        raise NotData(f"the graph calls a module ({node.target})")
    name = qualified(node.target)
    if resolve(name) is not node.target:
        raise NotData(f"the graph calls {name}, which is no operator of torch")
    return name


def qualified(function: Any) -> str:
    if isinstance(function, torch._ops.OpOverload):
        return "torch.ops." + str(function)
    if isinstance(function, torch._ops.OpOverloadPacket):
        return "torch.ops." + str(function)
    name = str(getattr(function, "__name__", ""))
    if getattr(operator, name, None) is function:
        return f"operator.{name}"
    try:
        return str(torch.fx.node._get_qualified_name(function))
    except (AttributeError, RuntimeError):
        raise NotData(f"the graph calls {function!r}") from None


def resolve(name: str) -> Any:
    """The function of that name; NotData for one that is none, or does more than compute."""
    root, _, rest = name.partition(".")
    found: Any = {"torch": torch, "operator": operator, "math": math, "_operator": operator}.get(root)
    for part in rest.split("."):
        found = getattr(found, part, None) if found is not None and not part.startswith("__") else None
    if found is None or not is_operator(found):
        raise NotData(f"{name[:80]!r} is no operator of torch")
    return found


def is_operator(found: Any) -> bool:
    if isinstance(found, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    home = str(getattr(found, "__module__", None) or "torch._C")
    if isinstance(found, (types.BuiltinFunctionType, types.MethodDescriptorType)):
        return home == "torch" or home.startswith(HOMES) or home in ("builtins", "None")
    return isinstance(found, types.FunctionType) and (
        home in HOMES
        or home.startswith("torch._jit_internal")
        or found in torch.overrides.get_overridable_functions().get(torch, ())
    )


def literal(item: Any) -> Any:
    """An argument as JSON with tags."""
    if isinstance(item, torch.fx.Node):
        return {"ref": item.name}
    if item is None or isinstance(item, (bool, str)):
        return item
    if isinstance(item, (int, float)) and type(item) in (int, float):
        return item if math.isfinite(item) else {"float": str(item)}
    if isinstance(item, (list, torch.fx.immutable_collections.immutable_list)):
        return [literal(each) for each in item]
    if isinstance(item, tuple):
        return {"tuple": [literal(each) for each in item]}
    if isinstance(item, slice):
        return {"slice": [literal(each) for each in (item.start, item.stop, item.step)]}
    return special(item)


def special(item: Any) -> Any:
    if item is Ellipsis:
        return {"ellipsis": True}
    if isinstance(item, dict):
        return {"dict": [[literal(key), literal(value)] for key, value in item.items()]}
    if isinstance(item, complex):
        return {"complex": [repr(item.real), repr(item.imag)]}
    if isinstance(item, torch.device):
        return {"device": str(item)}
    for tag, kind in NAMED.items():
        if isinstance(item, kind):
            return {tag: str(item).split(".")[-1]}
    raise NotData(f"the graph holds a {type(item).__name__}")


NAMED: dict[str, Any] = {"dtype": torch.dtype, "layout": torch.layout, "memory": torch.memory_format}


# Back to fx


def to_module(program: dict[str, Any], double: bool = False, device: str = "cpu") -> tuple[Any, list[str]]:
    """The GraphModule and the names of its inputs; `double` computes in float64 wherever it is in floats."""
    graph = torch.fx.Graph()
    names = [item[0] for item in program["main"]["inputs"]]
    places = {name: graph.placeholder(f"x{index}") for index, name in enumerate(names)}
    weights: dict[str, Any] = {}
    for index, (name, item) in enumerate(program["constants"].items()):
        value = constant(*item)
        weights[f"w{index}"] = (widened(value) if double else value).to(device)
        places[name] = graph.get_attr(f"w{index}")
    for name, op, args, kwargs in program["main"]["bindings"]:
        given = [value_of(item, places, double) for item in args]
        keyed = {key: value_of(item, places, double) for key, item in kwargs.items()}
        if op.startswith("Tensor."):
            places[name] = graph.call_method(method(op[7:]), tuple(given), keyed)
        else:
            places[name] = graph.call_function(resolve(op), tuple(given), keyed)
    graph.output(tuple(places[name] for name in program["main"]["outputs"]))
    graph.lint()
    return torch.fx.GraphModule(weights, graph), names


def method(name: str) -> str:
    """A method's name; NotData for one that does more than compute."""
    if name.startswith("__") or not hasattr(torch.Tensor, name) or name in ("numpy", "storage", "tolist"):
        raise NotData(f"{name[:80]!r} is no method of tensors")
    return name


def value_of(item: Any, places: dict[str, Any], double: bool) -> Any:
    """The argument that a tagged JSON value spells."""
    if isinstance(item, list):
        return [value_of(each, places, double) for each in item]
    if not isinstance(item, dict):
        return item
    ((tag, inner),) = item.items()
    if tag == "ref":
        return places[inner]
    if tag == "dtype":
        found = dtype(inner)
        return torch.float64 if double and found.is_floating_point else found
    if tag in ("tuple", "slice"):
        items = value_of(inner, places, double)
        return tuple(items) if tag == "tuple" else slice(*items)
    if tag == "dict":
        return {value_of(key, places, double): value_of(each, places, double) for key, each in inner}
    return SIMPLE[tag](inner)


def dtype(name: str) -> Any:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise NotData(f"{name!r:.40} is no dtype of torch")
    return found


SIMPLE: dict[str, Any] = {
    "float": float,
    "ellipsis": lambda inner: ...,
    "complex": lambda inner: complex(float(inner[0]), float(inner[1])),
    "device": lambda inner: torch.device("cpu" if inner != "meta" else "meta"),
    "layout": lambda inner: getattr(torch, str(inner)),
    "memory": lambda inner: getattr(torch, str(inner)),
}


def constant(name: str, shape: list[int], data: str) -> Any:
    raw = base64.b64decode(data)
    kind = dtype(name)
    if not raw:
        return torch.zeros(shape, dtype=kind)
    return torch.frombuffer(bytearray(raw), dtype=kind).reshape(shape)


def widened(value: Any) -> Any:
    return value.double() if value.is_floating_point() else value


def encoded(value: Any) -> list[Any]:
    """A tensor as a document keeps it."""
    plain = value.detach().cpu().contiguous()
    raw = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return [str(plain.dtype).split(".")[-1], list(plain.shape), base64.b64encode(raw).decode("ascii")]


def feeds(values: dict[str, Any], names: list[str], double: bool = False, device: str = "cpu") -> list[Any]:
    """Tensors to call the module with, each its own."""
    found = [to_torch(values[name]) for name in names]
    return [(widened(value) if double else value).to(device) for value in found]


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
            known[node] = value if fake is None else fake.from_tensor(value)
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
    """What goes back to crux: tensors; a tuple of them under names of its members; numbers as tensors."""
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


def run_program(
    program: bytes, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Any
) -> dict[str, Any]:
    """Run a program of the format `torch`; settings: `backend` of `torch.compile`, `double`, `device`."""
    if settings.get("show") == "source":
        from oracles.in_worker.torch_graph_source import source

        return source(program, inputs)
    document = json.loads(program)
    backend, double = settings.get("backend", "eager"), bool(settings.get("double"))
    device = str(settings.get("device", "cpu"))
    module, names = to_module(document, double, device)
    given = feeds(inputs, names, double, device)
    torch.manual_seed(0)
    with torch.no_grad():
        if backend == "eager":
            enter("execute")
            known = named(document, evaluate(module, given))
            known.update({name: given[index] for index, name in enumerate(names)})
            wanted = outputs or document["main"]["outputs"]
            missing = [name for name in wanted if name not in known]
            known.update({name: constant(*document["constants"][name]) for name in missing})
            return results(wanted, [known[name] for name in wanted])
        values = compiled(module, backend, enter)(*given)
    return results(document["main"]["outputs"], values)


def describe(program: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    """What fake tensors say of a program: the type of each binding, or why it is ill-formed."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

    document = json.loads(program)
    made: list[Any] = []
    try:
        module, _ = to_module(document)
        with FakeTensorMode() as mode, torch.no_grad():
            made = evaluate(
                module, [torch.empty(shape, dtype=dtype(kind)) for kind, shape in inputs.values()], mode
            )
    except DataDependentOutputException:
        pass
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".split("\n")[0]}
    found = named(document, made)
    return {
        "types": {name: type_of(value) for name, value in found.items() if isinstance(value, torch.Tensor)}
    }


def type_of(value: Any) -> list[Any]:
    return [str(value.dtype).split(".")[-1], [int(dim) for dim in value.shape]]
