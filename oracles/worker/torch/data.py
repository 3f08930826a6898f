"""A torch program as data, read out of an fx graph, and what its names stand for.

Operators are named as fx names them (`torch.ops.aten.add.Tensor`, `operator.floordiv`, `Tensor.mean`); only
functions of torch that compute are ever looked up by name. Graphs that an operator of control flow holds
become bodies of its binding.
"""

import contextlib
import math
import operator
from typing import Any, Callable, ContextManager  # noqa: UP035 (Python 3.8)

import torch

from oracles.worker import rounds
from oracles.worker.onnx import Unsupported
from oracles.worker.torch import allowed


class NotData(Exception):
    """A graph holds something that no data can say."""


# Out of fx


def to_data(module: Any, prefix: str = "") -> dict[str, Any]:
    """The bindings, outputs and held tensors of a GraphModule; its placeholders keep their nodes' names."""
    program: dict[str, Any] = {"bindings": [], "outputs": [], "constants": {}}
    bodies = {}
    for node in module.graph.nodes:
        name = prefix + node.name
        if node.op == "get_attr":
            value = attribute(module, node.target)
            if isinstance(value, torch.nn.Module):
                bodies[node] = body(value, f"{name}_")
            elif isinstance(value, torch.Tensor) and not prefix:
                program["constants"][name] = value
            else:
                raise NotData(f"the graph holds a {type(value).__name__}")
        elif node.op == "output":
            leaves = [each for each in flat(node.args[0]) if isinstance(each, torch.fx.Node)]
            program["outputs"] = [prefix + each.name for each in leaves]
        elif node.op != "placeholder":
            given = node.args[:1] if node.target is getattr else node.args
            args = [literal(item, prefix, bodies) for item in given]
            kwargs = {key: literal(item, prefix, bodies) for key, item in node.kwargs.items()}
            program["bindings"].append([name, name_of(node), args, kwargs])
    return program


def body(module: Any, prefix: str) -> Any:
    """A graph that an operator of control flow holds; `single` where it returns a tensor and no tuple."""
    program = to_data(module, prefix)
    inputs = [
        [prefix + node.name, *declared(node)] for node in module.graph.nodes if node.op == "placeholder"
    ]
    (result,) = [node.args[0] for node in module.graph.nodes if node.op == "output"]
    if len(program["outputs"]) != len(flat(result)):
        raise NotData("a branch or loop returns something that is no tensor")
    facts = {"single": True} if isinstance(result, torch.fx.Node) else {}
    return {
        "graph": {
            "inputs": inputs,
            "bindings": program["bindings"],
            "outputs": program["outputs"],
            "facts": facts,
        }
    }


def declared(node: Any) -> list[Any]:
    """The dtype and dims that a placeholder takes; a value that is not a tensor counts as an integer."""
    value = node.meta.get("example_value", node.meta.get("val"))
    if not isinstance(value, torch.Tensor):
        return ["int64", []]
    return [str(value.dtype).split(".")[-1], [dim if isinstance(dim, int) else 1 for dim in value.shape]]


def attribute(module: Any, path: str) -> Any:
    """Follow a dotted path from a module."""
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
    if node.target is getattr and is_property(str(node.args[1])):
        return f"Tensor.{node.args[1]}"
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    if node.op != "call_function":
        raise NotData(f"the graph calls a module ({node.target})")
    name = qualified(node.target)
    if name.startswith("torch.ops.") and name.split(".")[2] not in {*allowed.SPACES, "higher_order"}:
        raise NotData(
            f"{name} is an operator of the program's own, whose code is not kept: write out what it does"
        )
    if resolve(name) is not node.target:
        raise NotData(f"the graph calls {name}, which is no operator of torch")
    return name


def is_property(name: str) -> bool:
    """Whether a tensor shows part of itself under this name, as `.real` and `.T` do."""
    return name in ("real", "imag", "T", "mT", "H", "mH")


def qualified(function: Any) -> str:
    """Name a function as a document does. Raises NotData for one that has no such name."""
    if isinstance(function, torch._ops.OpOverload):
        return "torch.ops." + str(function)
    if isinstance(function, torch._ops.OpOverloadPacket):
        return "torch.ops." + str(function)
    if isinstance(function, torch._ops.HigherOrderOperator):
        return "torch.ops.higher_order." + str(function)
    name = str(getattr(function, "__name__", ""))
    if getattr(operator, name, None) is function:
        return f"operator.{name}"
    try:
        return str(torch.fx.node._get_qualified_name(function))
    except (AttributeError, RuntimeError):
        raise NotData(f"the graph calls {function!r}") from None


def resolve(name: str) -> Any:
    """The function of that name; NotData for one that is none, or does more than compute."""
    found = allowed.resolve(name)
    if found is None:
        raise NotData(f"{name[:80]!r} is no operator of torch that a program kept as data may use")
    return found


def literal(item: Any, prefix: str, bodies: Any) -> Any:
    """An argument as JSON with tags; a node that holds a graph as that."""
    if isinstance(item, torch.fx.Node):
        return bodies[item] if item in bodies else {"ref": prefix + item.name}
    if item is None or isinstance(item, (bool, str)):
        return item
    if isinstance(item, (int, float)) and type(item) in (int, float):
        return item if math.isfinite(item) else {"float": str(item)}
    if isinstance(item, (list, torch.fx.immutable_collections.immutable_list)):
        return [literal(each, prefix, bodies) for each in item]
    if isinstance(item, tuple):
        return {"tuple": [literal(each, prefix, bodies) for each in item]}
    if isinstance(item, slice):
        return {"slice": [literal(each, prefix, bodies) for each in (item.start, item.stop, item.step)]}
    if isinstance(item, dict):
        pairs = [[key, literal(value, prefix, bodies)] for key, value in item.items()]
        return {"dict": pairs}
    return special(item)


def special(item: Any) -> Any:
    """Write a value that JSON lacks as {tag: text}. Raises NotData for another kind."""
    if item is Ellipsis:
        return {"ellipsis": True}
    if isinstance(item, complex):
        return {"complex": [repr(item.real), repr(item.imag)]}
    if isinstance(item, torch.device):
        return {"device": str(item)}
    for tag, kind in NAMED.items():
        if isinstance(item, kind):
            return {tag: str(item).split(".")[-1]}
    raise NotData(f"the graph holds a {type(item).__name__}")


NAMED: dict[str, Any] = {"dtype": torch.dtype, "layout": torch.layout, "memory": torch.memory_format}


FOREIGN = {"bfloat16": torch.bfloat16}
"""The types that numpy lacks and torch computes in."""

SMALL = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")

STORED = {**FOREIGN, **{name: getattr(torch, name) for name in SMALL if hasattr(torch, name)}}
"""Those and the ones that torch keeps and converts, which only programs of its own hold."""


def to_torch(value: Any, known: Any = FOREIGN) -> Any:
    """A tensor of an array, or of (type name, bits)."""
    if isinstance(value, tuple):
        name, bits = value
        if name not in known:
            raise Unsupported(f"torch takes no input of dtype {name}")
        return torch.from_numpy(bits.view("int16" if bits.itemsize == 2 else "uint8").copy()).view(
            known[name]
        )
    if isinstance(value, list) or value is None or value.dtype.kind in "OUS":
        raise Unsupported("torch takes no input of dtype string, sequence or optional")
    return torch.from_numpy(value.copy())


def from_torch(value: Any) -> Any:
    """The array of a tensor, or (type name, bits); what is quantised or sparse is written out."""
    value = value.detach().cpu()
    if value.is_quantized:
        value = value.dequantize()
    elif value.layout is not torch.strided:
        value = value.to_dense()
    value = value.contiguous().resolve_conj().resolve_neg()
    if value.dtype is torch.bfloat16:
        return "bfloat16", value.view(torch.int16).numpy().view("uint16")
    name = str(value.dtype).split(".")[-1]
    return (name, value.view(torch.uint8).numpy()) if name in STORED else value.numpy()


NAMES = {"cpu": "cpu", "cuda": "cuda:0"}
"""What torch calls the device of a setting."""


def placed(module: Any, feeds: list[Any], settings: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Bring a module and its inputs to the device that the settings name; it was built on the CPU."""
    device = NAMES[str(settings.get("device", "cpu"))]
    if device == "cpu":
        return module, feeds
    return module.to(device), [each.to(device) for each in feeds]


def on_device(settings: dict[str, Any]) -> ContextManager[Any]:
    """Let what a program makes anew lie on its device as well."""
    device = NAMES[str(settings.get("device", "cpu"))]
    return contextlib.nullcontext() if device == "cpu" else torch.device(device)


def called_there(
    module: Any, feeds: list[Any], settings: dict[str, Any], enter: Callable[[str], None]
) -> Any:
    """Call a module where the settings say; where it is timed, again and again."""
    with on_device(settings):
        for _ in rounds(settings, enter):
            module(*feeds)
        return module(*feeds)
