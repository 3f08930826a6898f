"""A torch program kept as data, as the text of a module that a person reads."""

import base64
import json
import re
import textwrap
from typing import Any

import numpy as np
import torch

from oracles.worker.torch.data import NotData, is_property, resolve
from oracles.worker.torch.graph import constant, dynamic_dims, feeds, layout_of, may_write, method, of_torch

MOST_VALUES = 512
"""Elements of one tensor written as numbers; a longer one is written as bytes."""

WIDTH = 88
INDENT = 8


def written(inputs: list[str], weights: dict[str, Any], calls: list[str], results: list[str]) -> str:
    """The text of the class."""
    body = "\n".join([*calls, *results])
    used = {name: tensor for name, tensor in weights.items() if re.search(rf"{name}\b", body)}
    lines = ["class Repro(torch.nn.Module):"]
    if used:
        lines += ["    def __init__(self):", "        super().__init__()"]
        for name, tensor in used.items():
            lines.append(f"        self.register_buffer({name[5:]!r}, {literal(tensor, INDENT)})")
        lines.append("")
    lines.append(f"    def forward({', '.join(['self', *inputs])}):")
    lines += [f"        {call}" for call in calls]
    inner = ", ".join(results)
    return "\n".join(
        [*lines, f"        return ({inner},)" if len(results) == 1 else f"        return {inner}"]
    )


def literal(tensor: Any, indent: int) -> str:
    """An expression that gives the tensor's bits again."""
    tensor = tensor.detach().contiguous()
    dtype, sizes = str(tensor.dtype), list(tensor.shape)
    if tensor.numel() == 0:
        return f"torch.zeros({sizes}, dtype={dtype})"
    flat = tensor.reshape(-1)
    bits = flat.view(torch.uint8).reshape(tensor.numel(), -1)
    if tensor.numel() > 8 and bool((bits == bits[0]).all()):
        return f"torch.full({sizes}, {number(flat[0])}, dtype={dtype})"
    if tensor.numel() > MOST_VALUES:
        return of_bytes(bits.numpy().tobytes(), dtype, sizes, indent)
    inner = " " * (indent + 4)
    lines = textwrap.wrap(nested(tensor), WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    text = lines[0] if len(lines) == 1 else f"\n{inner}".join(["", *lines]) + f"\n{' ' * indent}"
    return f"torch.tensor({text}, dtype={dtype})"


def of_bytes(content: bytes, dtype: str, sizes: list[int], indent: int) -> str:
    """Write a tensor by the base64 of its bytes, in lines of WIDTH."""
    text = base64.b64encode(content).decode()
    inner = " " * (indent + 4)
    lines = [f'{inner}"{text[at : at + WIDTH - 8]}"' for at in range(0, len(text), WIDTH - 8)]
    joined = "\n".join(lines)
    return (
        f"torch.frombuffer(bytearray(base64.b64decode(\n{joined}\n{' ' * indent})), dtype={dtype})"
        f".reshape({sizes})"
    )


def nested(tensor: Any) -> str:
    """Write a tensor's numbers as nested lists."""
    return f"[{', '.join(map(nested, tensor))}]" if tensor.dim() else number(tensor)


def number(tensor: Any) -> str:
    """The shortest text of a number in its own type; `inf` and `nan` are names."""
    if tensor.dtype in (torch.float32, torch.float64, torch.float16):
        return str(tensor.numpy()[()])
    return repr(tensor.item())


INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "gt": ">",
    "ge": ">=",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
    "and_": "&",
    "or_": "|",
    "xor": "^",
}
SETS_ITEM = ("operator.setitem", "_operator.setitem")
"""A statement: no name is given to its result, which is None."""
PREFIX = {"neg": "-", "invert": "~", "inv": "~", "pos": "+"}


def source(program: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    """`module`: a class `Repro` of torch.nn.Module; `inputs`: the list of what to call it with.

    `writes` says whether it changes what it is given or holds, `dims` are pairs of an input and a dim of it
    that is of any size.
    """
    document = json.loads(program)
    taken = [item[0] for item in document["main"]["inputs"]]
    constants = {name: constant(*item) for name, item in document["constants"].items()}
    weights = {f"self.w{index}": value for index, value in enumerate(constants.values())}
    names = {name: f"self.w{index}" for index, name in enumerate(constants)}
    lines = lines_of(document["main"], names)
    results = [names[name] for name in document["main"]["outputs"]]
    module = written([names[name] for name in taken], weights, lines, results)
    given = feeds(inputs, document["main"]["inputs"])
    literals = [f"{placed(value)},  # x{index}" for index, value in enumerate(given)]
    writes = np.array(any(may_write(op, kwargs) for _, op, _, kwargs in document["main"]["bindings"]))
    dims = np.array(dynamic_dims(document), np.int64).reshape(-1, 2)
    return {"module": np.array(module), "inputs": np.array(listed(literals)), "writes": writes, "dims": dims}


def listed(literals: list[str]) -> str:
    """The lines of a list of inputs, which a script moves to their place."""
    return "\n".join(literals).replace(f"\n{' ' * INDENT}", "\n")


def placed(value: Any) -> str:
    """An expression for an input, laid out in memory as it is."""
    if not layout_of(value):
        return literal(value, INDENT)
    base = value[tuple(slice(0, 1) if not stride else slice(None) for stride in value.stride())]
    made = literal(base, INDENT)
    if not base.is_contiguous():
        sizes, strides = list(base.shape), list(base.stride())
        made = f"torch.empty_strided({sizes}, {strides}, dtype={base.dtype}).copy_({made})"
    return made if base.shape == value.shape else f"{made}.expand({list(value.shape)})"


def lines_of(graph: dict[str, Any], names: dict[str, str]) -> list[str]:
    """The statements of a graph, each name as short as it can be; the graphs in it become functions."""
    taken = sum(name.startswith("x") for name in names.values())
    names.update({item[0]: f"x{taken + index}" for index, item in enumerate(graph["inputs"])})
    lines = []
    for name, op, args, kwargs in graph["bindings"]:
        for inner in bodies_in([*args, *kwargs.values()]):
            lines += function(inner, names)
        if op in SETS_ITEM and not kwargs:
            names[name] = "None"
            lines.append(f"{text(args[0], names)}[{index(args[1], names)}] = {text(args[2], names)}")
            continue
        names[name] = f"y{sum(other.startswith('y') for other in names.values())}"
        lines.append(f"{names[name]} = {call(op, args, kwargs, names)}")
    return lines


def function(graph: dict[str, Any], names: dict[str, str]) -> list[str]:
    """A graph as a function of its own; its name stands for it from here on."""
    name = names[key_of(graph)] = f"f{sum(other.startswith('f') for other in names.values())}"
    lines = lines_of(graph, names)
    results = [names[each] for each in graph["outputs"]]
    is_single = graph.get("facts", {}).get("single")
    answer = results[0] if is_single else f"({', '.join(results)}{',' if len(results) == 1 else ''})"
    taken = ", ".join(names[item[0]] for item in graph["inputs"])
    return [f"def {name}({taken}):", *(f"    {line}" for line in [*lines, f"return {answer}"])]


def key_of(graph: dict[str, Any]) -> str:
    """The key of a graph among names: its own text."""
    return "graph " + json.dumps(graph)


def bodies_in(item: Any) -> Any:
    """The graphs in arguments."""
    if isinstance(item, dict) and "graph" in item:
        yield item["graph"]
    elif isinstance(item, (list, dict)):
        for inner in item if isinstance(item, list) else item.values():
            yield from bodies_in(inner)


def call(op: str, args: list[Any], kwargs: dict[str, Any], names: dict[str, str]) -> str:
    """An operator's call as a person would write it; NotData for one that no program may use."""
    must_be_allowed(op, kwargs)
    words = [text(item, names) for item in args]
    short = op.rpartition(".")[2]
    if op.startswith(("operator.", "_operator.")) and not kwargs:
        if short in INFIX and len(words) == 2:
            return f"{words[0]} {INFIX[short]} {words[1]}"
        if short in PREFIX and len(words) == 1:
            return f"{PREFIX[short]}{words[0]}"
        if short == "getitem":
            return f"{words[0]}[{index(args[1], names)}]"
    given = [f"{key}={text(item, names)}" for key, item in kwargs.items()]
    if op.startswith("Tensor.") and is_property(short):
        return f"{words[0]}.{short}"
    if op.startswith("Tensor."):
        return f"{words[0]}.{short}({', '.join([*words[1:], *given])})"
    place = op.replace("torch.nn.functional.", "F.") if op.startswith("torch.nn.functional.") else op
    if op.startswith(("operator.", "_operator.", "math.")):
        place = f"__import__({op.partition('.')[0]!r}).{short}"
    return f"{place}({', '.join([*words, *given])})"


def must_be_allowed(op: str, kwargs: dict[str, Any]) -> None:
    """Raises NotData for what `to_graph` would not build either: nothing else is ever printed."""
    if not op.startswith("Tensor."):
        resolve(op)
    elif not is_property(op[7:]):
        method(op[7:])
    for key in kwargs:
        if not key.isidentifier():
            raise NotData(f"{key[:40]!r} is no name of an argument")


def index(item: Any, names: dict[str, str]) -> str:
    """Write the text between the brackets of an index."""
    if isinstance(item, dict) and "tuple" in item and item["tuple"]:
        inner = [index(each, names) for each in item["tuple"]]
        return ", ".join(inner) + ("," if len(inner) == 1 else "")
    if isinstance(item, dict) and "slice" in item:
        parts = ["" if each is None else text(each, names) for each in item["slice"]]
        return ":".join(parts if parts[2] else parts[:2])
    return text(item, names)


def text(item: Any, names: dict[str, str]) -> str:
    """An argument."""
    if isinstance(item, list):
        return f"[{', '.join(text(each, names) for each in item)}]"
    if not isinstance(item, dict):
        return repr(item)
    ((tag, inner),) = item.items()
    if tag in ("ref", "graph"):
        return names[inner if tag == "ref" else key_of(inner)]
    if tag == "tuple":
        return f"({', '.join(text(each, names) for each in inner)}{',' if len(inner) == 1 else ''})"
    if tag == "slice":
        return f"slice({', '.join(text(each, names) for each in inner)})"
    if tag == "dict":
        return f"{{{', '.join(f'{text(key, names)}: {text(each, names)}' for key, each in inner)}}}"
    return literals_of(tag, inner)


def literals_of(tag: str, inner: Any) -> str:
    """A literal of torch's, or a number that JSON lacks; NotData for anything else."""
    if tag in KINDS:
        of_torch(inner, KINDS[tag])
        return f"torch.{inner}"
    if tag == "ellipsis":
        return "..."
    if tag == "complex":
        return f"complex({float(inner[0])!r}, {float(inner[1])!r})"
    if tag not in ("device", "float"):
        raise NotData(f"an argument is tagged {tag[:40]!r}")
    return f"torch.device({str(inner)!r})" if tag == "device" else f"float({str(float(inner))!r})"


KINDS = {"dtype": torch.dtype, "layout": torch.layout, "memory": torch.memory_format}
