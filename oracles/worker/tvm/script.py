"""Running a user's TVMScript up to where it compiles: its module, what it calls that with, by which name."""

from __future__ import annotations

import base64
import contextlib
import json
import linecache
import sys
import types
from dataclasses import dataclass, field
from typing import Any, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np
import tvm
from tvm import relax

from oracles.worker.arrays import decoded_array
from oracles.worker.onnx.program import to_array
from oracles.worker.tvm.build import to_module
from oracles.worker.tvm.types import NotData, kind_of
from oracles.worker.tvm.walk import reads

SCRIPT = "crux_script"
"""What the script's module is called; TVM's parser looks its source up by that."""

NAMES = ("model", "mod", "Module")


class Called(SystemExit):
    """The script has called what it compiled: nothing after that is of interest."""


@dataclass
class Scripted:
    """The compile calls that a script was seen to begin; nothing of them was compiled."""

    module: Any = None
    inputs: list[Any] = field(default_factory=list)
    entry: str = ""
    notes: list[str] = field(default_factory=list)


def scripted(name: str, text: str) -> Scripted:
    """`model`, `mod` or `Module` of a script, else what it compiles, else its last module; its `inputs`.

    It compiles nothing: a failure that the module has belongs to the target's own process.
    """
    space = types.ModuleType(SCRIPT)
    space.__file__ = name
    sys.modules[SCRIPT] = space
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    sys.argv = [name]
    seen = Scripted()
    names = vars(space)
    with watching(seen):
        try:
            exec(compile(text, name, "exec"), names)
        except SystemExit:
            pass
        except Exception as error:
            if seen.module is None and not modules(names):
                raise
            seen.notes.append(f"the script itself ended with {type(error).__name__}")
    return completed(seen, names)


def completed(seen: Scripted, names: dict[str, Any]) -> Scripted:
    """Find the module and its inputs among a script's names. Raises NotData without a module."""
    found = modules(names)
    known = [found[key] for key in NAMES if key in found] or [seen.module] * (seen.module is not None)
    if not known and not found:
        raise NotData("the script makes no module (a class under @I.ir_module)")
    seen.module = (known or list(found.values())[-1:])[0]
    if "inputs" in names:
        seen.inputs, seen.entry = ordered(names["inputs"], seen.module), ""
    seen.inputs = [plain(value) for value in seen.inputs]
    return seen


def modules(names: dict[str, Any]) -> dict[str, Any]:
    """The modules among a script's names; a PrimFunc of its own is a module of one function."""
    single = {
        key: tvm.IRModule({key: each}) for key, each in names.items() if isinstance(each, tvm.tirx.PrimFunc)
    }
    return {**single, **{key: each for key, each in names.items() if isinstance(each, tvm.ir.IRModule)}}


def ordered(given: Any, module: Any) -> list[Any]:
    """Inputs by the order of the parameters where they come by their names."""
    if not isinstance(given, dict):
        return list(given)
    functions = [each for each in module.functions.values() if isinstance(each, relax.Function)]
    for function in functions:
        names = [param.name for param in function.params]
        if given.keys() <= set(names):
            return [given.get(name) for name in names]
    return list(given.values())


def plain(value: Any) -> Any:
    """Make numpy arrays of TVM's."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.numpy() if hasattr(value, "numpy") else value


@contextlib.contextmanager
def watching(seen: Scripted) -> Iterator[None]:
    """Compiling gives a machine that only notes what it is called with; the first module counts."""

    def compiled(module: Any, *arguments: Any, **options: Any) -> Any:
        if seen.module is None and isinstance(module, tvm.ir.IRModule):
            seen.module = module
        return Machine(seen)

    def machine(*arguments: Any, **options: Any) -> Any:
        return Machine(seen)

    with contextlib.ExitStack() as stack:
        for owner, name, stub in (
            (tvm, "compile", compiled),
            (relax, "build", compiled),
            (relax, "VirtualMachine", machine),
        ):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, stub)
        yield


class Machine:
    """Stands for what was compiled, and for the machine that runs it."""

    def __init__(self, seen: Scripted) -> None:
        self.seen = seen

    def __getitem__(self, entry: str) -> Any:
        def call(*values: Any) -> Any:
            self.seen.inputs, self.seen.entry = list(values), str(entry)
            raise Called

        return call

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


MOST_VALUES = 64


def source(program: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    """`module`: TVMScript; main's constants that it cannot spell are parameters, bound by the lines after it.

    Those of other functions are in TVM's own JSON.
    """
    document = json.loads(program)
    name = document["facts"].get("main", "main")
    elsewhere = set().union(*(reads([graph]) for graph in document["functions"].values()))
    constants = document["constants"]
    lifted = {key: item for key, item in constants.items() if item[1] and key not in elsewhere}
    kept = {key: item for key, item in constants.items() if key not in lifted}
    main = dict(document["main"])
    main["inputs"] = main["inputs"] + [[key, item[0], item[1]] for key, item in lifted.items()]
    module = to_module({**document, "main": main, "constants": kept})
    lines = [script(module, has_data=any(item[1] for item in kept.values()))]
    if lifted:
        bound = "".join(f"    {key!r}: {constant(item)},\n" for key, item in lifted.items())
        lines.append(f"Module = relax.transform.BindParams({name!r}, {{\n{bound}}})(Module)\n")
    texts = [f"{argument(item, inputs)},  # {item[0]}" for item in document["main"]["inputs"]]
    return {
        "module": np.array("\n".join(lines)),
        "inputs": np.array("\n".join(texts)),
        "entry": np.array(name),
    }


def constant(item: list[Any]) -> str:
    """Write a constant with its dtype: TVM reads a plain array of 64-bit elements as 32-bit ones."""
    return f"relax.const({literal(decoded_array(*item))}, {item[0]!r})"


def argument(item: list[Any], inputs: dict[str, Any]) -> str:
    """Write the virtual machine's argument for an input, or the array for a tensor."""
    array, kind = to_array(inputs[item[0]]), kind_of(item)
    if kind == "shape_type":
        return f"tvm.runtime.ShapeTuple({array.tolist()})"
    return repr(array[()].item()) if kind == "prim_type" else literal(array)


def script(module: Any, has_data: bool = False) -> str:
    """The text; the comments at its top, in which TVM says what it takes to read it, as statements."""
    lines = module.script(show_meta=has_data).splitlines()
    imports = [line[2:] for line in lines if line.startswith(("# from ", "# import "))]
    kept = [line for line in lines if not line.startswith("#")]
    return "\n".join([*imports, "", *kept]).strip() + "\n"


def literal(array: Any) -> str:
    """An expression that gives the array's bits again."""
    name, sizes = array.dtype.name, list(array.shape)
    plain = array.dtype.kind in "biuf" and int(array.dtype.isbuiltin) == 1
    if plain and 0 < array.size <= MOST_VALUES:
        return f"np.array({nested(array)}, {name!r})" + (f".reshape({sizes})" if 0 in sizes else "")
    flat = array.reshape(-1)
    if plain and array.size and bool((flat == flat[0]).all()):
        return f"np.full({sizes}, {flat[0].item()!r}, {name!r})"
    kind = repr(name) if plain else f"__import__('ml_dtypes').{name}"
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return f"np.frombuffer(base64.b64decode({data!r}), {kind}).reshape({sizes})"


def nested(array: Any) -> str:
    """Nested brackets with the shortest text of each element in its own type."""
    if array.ndim:
        return f"[{', '.join(nested(np.asarray(each)) for each in array)}]"
    value = array[()]
    return str(value) if array.dtype.kind == "f" else repr(value.item())
