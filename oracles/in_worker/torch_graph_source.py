"""A torch program kept as data, as the text of a module that a person reads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from oracles.in_worker.torch_graph import constant, feeds
from oracles.in_worker.torch_source import literal, written

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
PREFIX = {"neg": "-", "invert": "~", "inv": "~", "pos": "+"}


def source(program: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    """`module`: a class `Repro` of torch.nn.Module; `inputs`: the list of what to call it with."""
    document = json.loads(program)
    taken = [item[0] for item in document["main"]["inputs"]]
    names = {name: f"x{index}" for index, name in enumerate(taken)}
    constants = {name: constant(*item) for name, item in document["constants"].items()}
    weights = {f"self.w{index}": value for index, value in enumerate(constants.values())}
    names.update({name: f"self.w{index}" for index, name in enumerate(constants)})
    bindings = document["main"]["bindings"]
    names.update({binding[0]: f"y{index}" for index, binding in enumerate(bindings)})
    calls = [f"{names[name]} = {call(op, args, kwargs, names)}" for name, op, args, kwargs in bindings]
    results = [names[name] for name in document["main"]["outputs"]]
    text = written([names[name] for name in taken], weights, calls, results)
    given = feeds(inputs, taken)
    literals = [f"{literal(value, 8)},  # x{index}" for index, value in enumerate(given)]
    return {"module": np.array(text), "inputs": np.array("\n".join(literals))}


def call(op: str, args: list[Any], kwargs: dict[str, Any], names: dict[str, str]) -> str:
    """An operator's call as a person would write it."""
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
    if op.startswith("Tensor."):
        return f"{words[0]}.{short}({', '.join([*words[1:], *given])})"
    place = op.replace("torch.nn.functional.", "F.") if op.startswith("torch.nn.functional.") else op
    if op.startswith(("operator.", "_operator.", "math.")):
        place = f"__import__({op.partition('.')[0]!r}).{short}"
    return f"{place}({', '.join([*words, *given])})"


def index(item: Any, names: dict[str, str]) -> str:
    """What stands between the brackets of an index."""
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
    if tag == "ref":
        return names[inner]
    if tag == "tuple":
        return f"({', '.join(text(each, names) for each in inner)}{',' if len(inner) == 1 else ''})"
    if tag == "slice":
        return f"slice({', '.join(text(each, names) for each in inner)})"
    if tag == "dict":
        return f"{{{', '.join(f'{text(key, names)}: {text(each, names)}' for key, each in inner)}}}"
    return literals_of(tag, inner)


def literals_of(tag: str, inner: Any) -> str:
    if tag in ("dtype", "layout", "memory"):
        return f"torch.{inner}"
    if tag == "ellipsis":
        return "..."
    if tag == "complex":
        return f"complex({inner[0]}, {inner[1]})"
    return f"torch.device({inner!r})" if tag == "device" else f"float({inner!r})"
