"""Opening a user's torch program in a worker: a script or an exported program becomes a graph as data."""

from __future__ import annotations

import io
import linecache
import sys
from typing import Any, ClassVar

import torch

from oracles.in_worker.torch_graph import NotData, encoded, flat, to_data


class Stop(BaseException):
    """A script has called what it compiles: enough is known of it."""


class Compiled:
    """What `torch.compile` gives while a script is opened: it notes what it is called with, and ends it."""

    calls: ClassVar[list[Any]] = []

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        Compiled.calls.append((self.function, args, kwargs))
        raise Stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


def capture(name: str, content: bytes) -> dict[str, Any]:
    """The program and its inputs; NotData in words for a person where there is none."""
    torch.set_num_threads(1)
    model, args, kwargs = exported(content) if name.endswith(".pt2") else scripted(name, content.decode())
    values = [value for value in flat([args, kwargs]) if isinstance(value, torch.Tensor)]
    if not callable(model):
        raise NotData("`model` cannot be called")
    if isinstance(model, torch.nn.Module) and not model.training:
        model.eval()
    with torch.no_grad():
        module, bound, names = traced(model, args, kwargs)
    return document(module, bound, names, values)


def exported(content: bytes) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    program = torch.export.load(io.BytesIO(content))
    if program.example_inputs is None:
        raise NotData("the exported program has no example inputs; export it with some")
    args, kwargs = program.example_inputs
    return program.module(check_guards=False), tuple(args), dict(kwargs)


def scripted(name: str, text: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What a script calls `model` and `inputs`, or else the first compiled function that it calls."""
    space: dict[str, Any] = {"__name__": "__main__", "__file__": name}
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    sys.argv = [name]
    Compiled.calls.clear()
    real, torch.compile = torch.compile, compiling
    try:
        exec(compile(text, name, "exec"), space)
    except (Stop, SystemExit):
        pass
    finally:
        torch.compile = real
    if "model" not in space or "inputs" not in space:
        if Compiled.calls:
            function, args, kwargs = Compiled.calls[0]
            return function, tuple(args), dict(kwargs)
        raise NotData("the script defines no `model` and `inputs`, and calls nothing that torch.compile made")
    inputs = space["inputs"]
    if isinstance(inputs, dict):
        return space["model"], (), inputs
    return space["model"], tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,), {}


def compiling(model: Any = None, **settings: Any) -> Any:
    return compiling if model is None else Compiled(model)


def traced(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any], list[str]]:
    """A graph, what its placeholders are bound to, their names: by dynamo, else by dispatched operators."""
    model = getattr(model, "_orig_mod", model)
    found: list[Any] = []

    def keep(module: Any, bound: Any) -> Any:
        found.append((module, list(bound)))
        return module.forward

    try:
        torch._dynamo.reset()
        torch.compile(model, backend=keep, fullgraph=True, dynamic=False)(*args, **kwargs)
    except Exception as error:  # whatever dynamo cannot do, the dispatcher may
        return dispatched(model, args, kwargs, error)
    if len(found) != 1:
        raise NotData("the model does nothing that torch could capture")
    module, bound = found[0]
    names = [node.target for node in module.graph.nodes if node.op == "placeholder"]
    return module, bound, names


def dispatched(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], first: Exception
) -> tuple[Any, list[Any], list[str]]:
    from torch.fx.experimental.proxy_tensor import make_fx

    keys = list(kwargs)
    names = [f"arg{index}" for index in range(len(args))] + keys

    def call(*given: Any) -> Any:
        return model(*given[: len(args)], **{key: given[len(args) + at] for at, key in enumerate(keys)})

    try:
        module = make_fx(call)(*args, *kwargs.values())
    except Exception as error:
        told = f"{type(first).__name__}: {first}".split("\n")[0]
        raise NotData(f"no graph of the model can be captured: {told}; {error}") from error
    return module, [*args, *kwargs.values()], names


def document(module: Any, bound: list[Any], names: list[str], values: list[Any]) -> dict[str, Any]:
    """The program, with what the user gave as inputs and everything else as constants."""
    given = {id(value) for value in values}
    program = to_data(module)
    places = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    inputs, feeds = [], {}
    for at, place in enumerate(places):
        value = bound[at]
        if not isinstance(value, torch.Tensor):
            raise NotData(f"the graph takes a {type(value).__name__}, not only tensors")
        if value.device.type != "cpu":
            value = value.cpu()
        if id(value) in given and not isinstance(value, torch.nn.Parameter):
            item = encoded(value)
            inputs.append([place, item[0], item[1]])
            feeds[place] = item
        else:
            program["constants"][place] = value
    constants = {name: encoded(value) for name, value in program["constants"].items()}
    main = {"inputs": inputs, "bindings": program["bindings"], "outputs": program["outputs"]}
    return {"main": main, "constants": constants, "inputs": feeds}
