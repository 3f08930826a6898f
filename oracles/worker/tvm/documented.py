"""The modules of a user's script or JSON, those that tests give to TVM's passes, and a module as a script."""

import base64
import contextlib
import json
import linecache
import re
import sys
import types
from dataclasses import dataclass, field
from typing import Any, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from oracles.worker.arrays import encoded_array
from oracles.worker.limits import run_tests
from oracles.worker.onnx import to_array
from oracles.worker.tvm.build import to_module
from oracles.worker.tvm.read import read_module
from oracles.worker.tvm.tir import read as tir_read
from oracles.worker.tvm.tir.build import build_module
from oracles.worker.tvm.tir.read import read_module as read_loops
from oracles.worker.tvm.types import NotData, kind_of
from oracles.worker.tvm.watch import instrumented

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


MOST_VALUES, MOST_INLINE = 64, 16
"""How many values of an array are written as numbers, and how many within a line of a module."""


def source(program: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    """`module`: TVMScript that spells its arrays; those of many values are named above it."""
    document = json.loads(program)
    texts = [f"{argument(item, inputs)},  # {item[0]}" for item in document["main"]["inputs"]]
    return {
        "module": np.array(script(to_module(document))),
        "inputs": np.array("\n".join(texts)),
        "entry": np.array(document["facts"].get("main", "main")),
    }


def argument(item: list[Any], inputs: dict[str, Any]) -> str:
    """Write the virtual machine's argument for an input, or the array for a tensor."""
    array, kind = to_array(inputs[item[0]]), kind_of(item)
    if kind == "shape_type":
        return f"tvm.runtime.ShapeTuple({array.tolist()})"
    return repr(array[()].item()) if kind == "prim_type" else literal(array)


METADATA = re.compile(r'metadata = tvm\.ir\.load_json\("""(.*?)"""\)\n', re.DOTALL)
STORED = re.compile(r'metadata\["([\w.]+)"\]\[(\d+)\]')
"""What a printed module refers to, and how: the arrays of its constants, in TVM's own JSON."""


def script(module: Any) -> str:
    """The text; the comments at its top, in which TVM says what it takes to read it, as statements.

    Arrays stand where they are used instead of in JSON; TVM's JSON is kept if there is anything else in it.
    """
    text = module.script(show_meta=True)
    named: dict[str, str] = {}
    if stored := METADATA.search(text):
        body = text.replace(stored[0], "")
        objects = tvm.ir.load_json(stored[1].encode().decode("unicode_escape"))
        body = STORED.sub(lambda found: spelled(found, objects, named), body)
        text = body if not STORED.search(body) else stored[0] + body
    lines = text.splitlines()
    imports = [line[2:] for line in lines if line.startswith(("# from ", "# import "))]
    kept = [line for line in lines if not line.startswith("#")]
    arrays = [f"{name} = {value}" for value, name in named.items()]
    return "\n".join([*imports, "", *arrays, *kept]).strip() + "\n"


def spelled(found: Any, objects: Any, named: dict[str, str]) -> str:
    """An expression for what the metadata holds, if it is an array; of many values a name."""
    held: Any = getattr(objects[found[1]][int(found[2])], "value", None)
    if not hasattr(held, "numpy"):
        return str(found[0])
    array = held.numpy()
    value = literal(array)
    if array.size > MOST_INLINE:
        value = named.setdefault(value, f"array_{len(named)}")
    # with its dtype: TVM reads a plain array of 64-bit elements as 32-bit ones
    return f"R.const({value}, {array.dtype.name!r})"


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


REWRITTEN = (
    "TVM does not find the module equal to the one that was read: it was written anew from its bindings"
)


def capture(name: str, content: bytes) -> dict[str, Any]:
    """The module as data with the inputs that came along; NotData in words where there is none."""
    seen = kept(content.decode()) if name.endswith(".json") else scripted(name, content.decode())
    if holds_loops_alone(seen.module):
        return loops(seen)
    document = read_module(seen.module, seen.inputs, seen.entry)
    rebuilt = to_module(document)
    names = [item[0] for item in document["main"]["inputs"]]
    pairs = zip(names, leaves(seen.inputs))  # noqa: B905 (Python 3.8)
    feeds = {name: encoded_array(np.asarray(value)) for name, value in pairs}
    same = equal(tvm.relax.transform.Normalize()(seen.module), rebuilt)
    return {**document, "inputs": feeds, "notes": [*seen.notes, *([] if same else [REWRITTEN])]}


def holds_loops_alone(module: Any) -> bool:
    """Whether every function of a module is a PrimFunc."""
    functions = list(module.functions.values())
    return bool(functions) and all(isinstance(each, tvm.tirx.PrimFunc) for each in functions)


def loops(seen: Scripted) -> dict[str, Any]:
    """A module of PrimFuncs as a `tir` document; inputs are those of its first function, in order."""
    document = tir_read.read_module(seen.module)
    function = next(iter(document["functions"].values()))
    pairs = zip(function["params"], leaves(seen.inputs))  # noqa: B905 (Python 3.8)
    feeds = dict(fed(item, value) for item, value in pairs)
    same = equal(seen.module, build_module(document))
    notes = [*seen.notes, *([] if same else [REWRITTEN])]
    return {"format": "tir", "document": document, "inputs": feeds, "notes": notes}


def fed(item: Any, value: Any) -> tuple[str, Any]:
    """A parameter's name and its value; a number is of the type that the function declares."""
    if isinstance(item, dict):
        return item["name"], encoded_array(np.asarray(value))
    return item[0], encoded_array(np.asarray(value, item[1]))


def kept(text: str) -> Scripted:
    """A module in TVM's own JSON."""
    module = tvm.ir.load_json(text)
    if not isinstance(module, tvm.ir.IRModule):
        raise NotData("the JSON holds no module")
    return Scripted(module)


def leaves(values: Any) -> Iterator[Any]:
    """Yield the members of tuples in place of them; a list of numbers is a shape."""
    for value in values:
        if isinstance(value, list) and not all(isinstance(each, int) for each in value):
            yield from leaves(value)
        else:
            yield value


def equal(left: Any, right: Any) -> bool:
    """Say whether two modules are equal up to the names of free variables."""
    return bool(tvm_ffi.structural_equal(left, right, map_free_vars=True))


@tvm.ir.instrument.pass_instrument
class Pairs:
    """Keeps each module with the pass that changed it: OATest's hook of the pass call (§3.1).

    `loops` keeps the PrimFuncs of whatever goes into a pass, by their structure, changed or not.
    """

    def __init__(self, changed: list[tuple[str, Any]], loops: dict[int, Any]) -> None:
        self.changed = changed
        self.loops = loops
        self.open: list[tuple[Any, int]] = []

    def run_before_pass(self, module: Any, info: Any) -> None:
        """Remember the module that goes into a pass."""
        self.open.append((module, tvm_ffi.structural_hash(module)))
        for function in module.functions.values():
            if isinstance(function, tvm.tirx.PrimFunc):
                self.loops.setdefault(tvm_ffi.structural_hash(function), function)

    def run_after_pass(self, module: Any, info: Any) -> None:
        """Keep the module that went in if the pass changed it."""
        before, digest = self.open.pop()
        if digest != tvm_ffi.structural_hash(module):
            self.changed.append((str(info.name), before))


def documented(path: str, content: str) -> dict[str, Any]:
    """Run the tests of a file and return what they gave to passes.

    `graphs`: [test, pass, Relax module] each; `loops`: [test, module of one PrimFunc] each; `notes`: what
    went wrong; `left_out`: reasons.
    """
    changed: list[tuple[str, Any]] = []
    seen: dict[int, Any] = {}
    loops: dict[str, str] = {}
    graphs: dict[tuple[str, str], str] = {}
    left_out: dict[str, int] = {}

    def after_each(test: str) -> None:
        for name, module in changed:
            if holds_loops_alone(module):
                continue
            if (program := as_document(module, left_out)) is not None:
                graphs.setdefault((name, program), test)
        changed.clear()
        for function in seen.values():
            if (program := loops_document(function, left_out)) is not None:
                loops.setdefault(program, test)
        seen.clear()

    with instrumented(lambda: Pairs(changed, seen)):
        note = run_tests(path, base64.b64decode(content).decode("utf-8", "replace"), after_each)
    read = [[test, name, program] for (name, program), test in graphs.items()]
    alone = [[test, program] for program, test in loops.items()]
    notes = [note] if note else []
    return {"graphs": read, "loops": alone, "notes": notes, "left_out": left_out}


def loops_document(function: Any, left_out: dict[str, int]) -> str | None:
    """A module of this PrimFunc alone as data; None, with its reason counted, where there is none."""
    try:
        alone = tvm.ir.IRModule({"main": function.without_attr("global_symbol")})
        return json.dumps(read_loops(alone))
    except Exception as error:  # whatever a test makes; it is counted and told
        reason = f"as a program of loops: {type(error).__name__} {str(error)[:60]}"
        left_out[reason] = left_out.get(reason, 0) + 1
        return None


def as_document(module: Any, left_out: dict[str, int]) -> str | None:
    """The module as data; None, with its reason counted, where there is none."""
    try:
        document = {"format": "relax", "version": 1, **read_module(module)}
    except Exception as error:  # whatever a test makes; it is counted and told
        reason = f"as a Relax program: {type(error).__name__} {str(error)[:60]}"
        left_out[reason] = left_out.get(reason, 0) + 1
        return None
    return json.dumps(document)
