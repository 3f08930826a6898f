"""Opening a user's torch program in a worker: a script or an exported program becomes a graph as data."""

import io
import linecache
import os
import re
import sys
from typing import Any, Callable, ClassVar, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np
import torch

from oracles.worker.torch.data import NotData, flat, to_data
from oracles.worker.torch.exported import archive_of, is_dump, is_of_aoti, read_dump
from oracles.worker.torch.graph import constant, encoded, layout_of, to_module

WANTED = (
    "the script defines no `model` and `inputs`, and calls nothing that torch.compile made;"
    " give it these two names, such as `model = Net()` and `inputs = (torch.ones(2),)`"
)


class Stop(BaseException):
    """A script has called what it compiles: enough is known of it."""


class Compiled:
    """The stand-in for `torch.compile` in an opened script: it notes its arguments and ends the script."""

    calls: ClassVar[list[Any]] = []

    def __init__(self, function: Any, dynamic: Any = None) -> None:
        self.function = function
        self.dynamic = dynamic

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Note the call. Raises Stop: the script's program is known by now."""
        Compiled.calls.append((self.function, args, kwargs, bool(self.dynamic)))
        raise Stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


class Given:
    """A program as it was brought: what to call, with what, and which dims of it are of any size.

    `dims` are pairs of a tensor among the arguments and one of its dims. `trains` where the script goes on to
    take gradients of the results.
    """

    def __init__(self, model: Any, args: Any, kwargs: Any, dims: Any = (), trains: bool = False) -> None:
        self.model = model
        self.args = tuple(args)
        self.kwargs = dict(kwargs)
        self.dims = list(dims)
        self.trains = trains

    @property
    def tensors(self) -> list[Any]:
        """Give the tensors among the arguments, in order."""
        leaves = flat([self.args, self.kwargs])
        return [value for value in leaves if isinstance(value, torch.Tensor)]


def capture(name: str, content: bytes) -> dict[str, Any]:
    """The program and its inputs; NotData in words for a person where there is none."""
    torch.set_num_threads(1)
    given = exported(content) if name.endswith(".pt2") else scripted(name, content.decode())
    model = given.model = getattr(given.model, "_orig_mod", given.model)
    if isinstance(model, type) or not callable(model):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise NotData(f"`model` is {what}, not something to be called with the inputs; make it an instance")
    for value in given.tensors:
        if value.device.type == "meta" or value.is_nested:
            what = "nested" if value.is_nested else "on the device `meta`"
            raise NotData(f"an input is {what}, which crux does not keep; give plain tensors on the CPU")
    first: Exception = NotData("")
    for way in ways(given):
        try:
            return way(given)
        except Exception as error:  # whatever one way cannot do, another may
            first = first if str(first) else error
    raise NotData(f"no graph of the model can be captured ({first_line(first)}); {ADVICE}") from first


ADVICE = "leave out of `model` what decides by values or calls code that is not torch's"


def ways(given: Given) -> list[Callable[[Given], dict[str, Any]]]:
    """Ways to capture a program, the one that keeps most of it first."""
    if given.trains:
        return [with_gradients, by_dynamo, by_dispatch]
    return [*([by_dynamo_with_dims] if given.dims else []), by_dynamo, by_dispatch, as_decided]


def first_line(error: Exception) -> str:
    """Give an error's type and first line, at most 200 characters."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


# What a file holds


def exported(content: bytes) -> Given:
    """Open an archive of torch.export with its example inputs. Raises NotData if it has none."""
    program = torch.export.load(io.BytesIO(content))
    if program.example_inputs is None:
        raise NotData("the exported program has no example inputs; export it with some")
    args, kwargs = program.example_inputs
    taken = set(program.graph_signature.user_inputs)
    places = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in taken]
    metas = [node.meta["val"] for node in places if isinstance(node.meta.get("val"), torch.Tensor)]
    dims = [
        (at, dim)
        for at, meta in enumerate(metas)
        for dim, size in enumerate(meta.shape)
        if isinstance(size, torch.SymInt)
    ]
    return Given(program.module(check_guards=False), args, kwargs, dims)


def scripted(name: str, text: str) -> Given:
    """A script's `model` and `inputs`, or else the first compiled function that it calls."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    if is_of_aoti(text):
        with open(archive_of(name, text), "rb") as archive:
            return exported(archive.read())
    if is_dump(text):
        model, inputs = read_dump(name, text)
        return Given(model, tuple(inputs), {}, (), False)
    space: dict[str, Any] = {"__name__": "__main__", "__file__": name}
    sys.argv = [name]
    if os.path.dirname(name):
        sys.path.insert(0, os.path.dirname(name))
    Compiled.calls.clear()
    real, torch.compile = torch.compile, compiling
    try:
        exec(compile(text, name, "exec"), space)
    except (Stop, SystemExit):
        pass
    except Exception as error:
        if "CUDA" in str(error):
            raise NotData(f"{first_line(error)}; make everything on the CPU") from error
        if not is_complete(space):
            raise
    finally:
        torch.compile = real
    trains = re.search(r"\.backward\(", text) is not None
    if not is_complete(space):
        if not Compiled.calls:
            raise NotData(WANTED)
        function, args, kwargs, is_dynamic = Compiled.calls[0]
        return with_dims(Given(function, args, kwargs, (), trains), is_dynamic)
    model = space["model"]
    is_dynamic = any(call[3] for call in Compiled.calls) or bool(getattr(model, "dynamic", False))
    model = model.function if isinstance(model, Compiled) else model
    return with_dims(Given(model, *arguments(space["inputs"]), (), trains), is_dynamic)


def is_complete(space: dict[str, Any]) -> bool:
    """Say whether a script has made both a model and its inputs."""
    return "model" in space and "inputs" in space


def arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments: a tuple or list, a dictionary, a pair of both, or one value."""
    inputs = torch.utils._pytree.tree_map_only(np.ndarray, torch.as_tensor, inputs)
    if isinstance(inputs, dict):
        return (), inputs
    if not isinstance(inputs, (list, tuple)):
        return (inputs,), {}
    if len(inputs) == 2 and isinstance(inputs[0], (list, tuple)) and is_keywords(inputs[1]):
        return tuple(inputs[0]), inputs[1]
    return tuple(inputs), {}


def is_keywords(item: Any) -> bool:
    """Say whether a script's inputs are given by name."""
    return isinstance(item, dict) and all(isinstance(key, str) and key.isidentifier() for key in item)


def with_dims(given: Given, is_dynamic: bool) -> Given:
    """The dims that the script marked as dynamic; all of two and more where it compiles for any."""
    for at, value in enumerate(given.tensors):
        if value.is_nested:
            continue
        marked = {dim for mark in MARKS for dim in getattr(value, mark, ())}
        dims = [dim for dim, size in enumerate(value.shape) if dim in marked or (is_dynamic and size > 1)]
        given.dims += [(at, dim) for dim in dims]
    return given


MARKS = ("_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices")
"""Where dynamo keeps what `mark_dynamic` and `maybe_mark_dynamic` say of a tensor."""


def compiling(model: Any = None, **settings: Any) -> Any:
    """Stand in for torch.compile while a script runs: note the model, compile nothing."""
    if model is None:
        return lambda function: Compiled(function, settings.get("dynamic"))
    return Compiled(model, settings.get("dynamic"))


# Ways to capture


def by_dynamo_with_dims(given: Given) -> dict[str, Any]:
    """A graph in which the dims named are of any size."""
    tensors = given.tensors
    for value in tensors:
        forget_marks(value)
    for place, dim in given.dims:
        torch._dynamo.maybe_mark_dynamic(tensors[place], dim)
    return by_dynamo(given, dynamic=None)


def forget_marks(value: Any) -> None:
    """A dim that must be of any size and cannot would be an error of its own."""
    for mark in MARKS:
        if hasattr(value, mark):
            delattr(value, mark)


def by_dynamo(given: Given, dynamic: Any = False) -> dict[str, Any]:
    """The one graph that dynamo makes of it."""
    found: list[Any] = []
    for value in given.tensors if dynamic is False else ():
        forget_marks(value)

    def keep(module: Any, bound: Any) -> Any:
        found.append((module, list(bound)))
        return end

    torch._dynamo.reset()
    try:
        with torch.no_grad():
            compiled = torch.compile(given.model, backend=keep, fullgraph=True, dynamic=dynamic)
            compiled(*given.args, **given.kwargs)
    except Stop:
        pass
    if len(found) != 1:
        raise NotData("the model does nothing that torch could capture")
    module, bound = found[0]
    return document(module, bound, given.tensors)


def called(given: Given, values: Any) -> Any:
    """What the model gives for other tensors than those that its script calls it with."""
    filled = iter(values)
    args, kwargs = torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda _: next(filled), (given.args, given.kwargs)
    )
    return given.model(*args, **kwargs)


def by_dispatch(given: Given, *, decided: bool = False) -> dict[str, Any]:
    """The operators that it dispatches, those of its gradients included; `decided`: on these values."""

    def call(*values: Any) -> Any:
        return called(given, values)

    return dispatched(call, given.tensors, decided)


def end(*given: Any) -> Any:
    """End the script instead of running the graph, which may fail or end the process."""
    raise Stop


def as_decided(given: Given) -> dict[str, Any]:
    """Capture a model that branches on values, as it goes with these inputs."""
    found = by_dispatch(given, decided=True)
    return {**found, "notes": ["the model decides by values: captured is what it does with these inputs"]}


def with_gradients(given: Given) -> dict[str, Any]:
    """Capture the program with the gradients of its results' sum, if the script calls `backward`."""
    model = given.model
    weights = list(model.parameters()) if isinstance(model, torch.nn.Module) else []

    def call(*values: Any) -> Any:
        results = list(filter(is_real, torch.utils._pytree.tree_leaves(called(given, values))))
        total = sum(each.sum() for each in results if each.requires_grad)
        sources = [each for each in [*values, *weights] if each.requires_grad]
        return [*results, *torch.autograd.grad(total, sources, allow_unused=True)]

    found = dispatched(call, given.tensors, False)
    note = "the script calls backward: captured with the gradients of the sum of its results"
    return {**found, "notes": [note]}


def is_real(value: Any) -> bool:
    """Say whether a value is a tensor of floats."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def dispatched(call: Any, tensors: list[Any], decided: bool) -> dict[str, Any]:
    """Trace a call into a graph of aten operators; without what nobody reads."""
    found = traced(call, tensors, decided)
    look_again(found)
    return found


def traced(call: Any, tensors: list[Any], decided: bool = False) -> dict[str, Any]:
    """As `dispatched`, for a caller within a compilation, where dynamo cannot read the graph again."""
    from torch.fx.experimental.proxy_tensor import make_fx

    module = make_fx(call, _error_on_data_dependent_ops=not decided)(*tensors)
    module.graph.eliminate_dead_code()
    module.recompile()
    return document(module, tensors, tensors)


def look_again(found: dict[str, Any]) -> None:
    """Have dynamo read the graph once: what it cannot was its own to begin with, and no failure of that."""
    module, names = to_module(found)
    torch._dynamo.reset()
    with torch.no_grad():
        given = [constant(*found["inputs"][name]) for name in names]
        torch.compile(module, backend="eager", fullgraph=True, dynamic=False)(*given)


# As data


def document(module: Any, bound: list[Any], values: list[Any]) -> dict[str, Any]:
    """The program, with what the user gave as inputs and everything else as constants."""
    given = {id(value) for value in values}
    program = to_data(module)
    places = [node for node in module.graph.nodes if node.op == "placeholder"]
    inputs, feeds = [], {}
    for place, value in zip(places, bound):  # noqa: B905 (Python 3.8)
        if not isinstance(value, torch.Tensor):
            continue
        if id(value) in given and not isinstance(value, torch.nn.Parameter):
            item = encoded(value)
            layout = layout_of(value)
            inputs.append(
                [place.name, item[0], dims_of(place, item[1]), *([{"layout": layout}] if layout else [])]
            )
            feeds[place.name] = item
        else:
            program["constants"][place.name] = value
    sizes = list(sizes_of(places, bound))
    constants = {name: encoded(value) for name, value in program["constants"].items()}
    outputs = program["outputs"] or [item[0] for item in inputs]
    main = {"inputs": inputs, "bindings": [*sizes, *program["bindings"]], "outputs": outputs}
    return {"main": main, "constants": constants, "inputs": feeds}


def dims_of(place: Any, sizes: list[int]) -> list[Any]:
    """The dims of a placeholder, those of any size by their names."""
    known = place.meta.get("example_value")
    if not isinstance(known, torch.Tensor):
        return sizes
    return [str(dim) if is_symbolic(dim) else int(dim) for dim in known.shape]


def is_symbolic(dim: Any) -> bool:
    """Say whether a dim is left open by the export."""
    return isinstance(dim, torch.SymInt) and not dim.node.expr.is_number


def sizes_of(places: list[Any], bound: list[Any]) -> Iterator[list[Any]]:
    """Bindings for the sizes that a graph takes beside tensors: each asks the first tensor that has it."""
    for place, value in zip(places, bound):  # noqa: B905 (Python 3.8)
        if isinstance(value, torch.Tensor) or not place.users:
            continue
        symbol = str(place.meta.get("example_value"))
        found = [(each, dims_of(each, []).index(symbol)) for each in places if symbol in dims_of(each, [])]
        if not isinstance(value, (int, torch.SymInt)) or not found:
            raise NotData(f"the graph takes a {type(value).__name__}, not only tensors")
        holder, dim = found[0]
        yield [place.name, "torch.ops.aten.sym_size.int", [{"ref": holder.name}, dim], {}]
