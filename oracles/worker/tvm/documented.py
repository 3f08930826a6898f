"""The modules that the tests of a file give to TVM's passes, as ONNX models where ONNX can say them."""

from __future__ import annotations

import base64
import json
from typing import Any, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from oracles.worker.arrays import encoded_array
from oracles.worker.documented import run_tests
from oracles.worker.tvm.build import to_module
from oracles.worker.tvm.onnx_from_relax import NoSuchOperator, Writer
from oracles.worker.tvm.read import read_module
from oracles.worker.tvm.script import Scripted, scripted
from oracles.worker.tvm.tir import read as tir_read
from oracles.worker.tvm.tir.build import build_module
from oracles.worker.tvm.tir.read import read_module as read_loops
from oracles.worker.tvm.types import NotData
from oracles.worker.tvm.watch import instrumented

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

    `models`: [test, pass, ONNX model in base64] each; `graphs`: [test, pass, Relax module] each;
    `loops`: [test, module of one PrimFunc] each; `notes`: what went wrong; `left_out`: reasons.
    """
    changed: list[tuple[str, Any]] = []
    seen: dict[int, Any] = {}
    loops: dict[str, str] = {}
    found: dict[tuple[str, str], str] = {}
    graphs: dict[tuple[str, str], str] = {}
    left_out: dict[str, int] = {}

    def after_each(test: str) -> None:
        for name, module in changed:
            if holds_loops_alone(module):
                continue
            if (program := as_document(module, left_out)) is not None:
                graphs.setdefault((name, program), test)
            for function in module.functions.values():
                if isinstance(function, relax.Function):
                    try:
                        program = Writer(function).model().SerializeToString(deterministic=True)
                    except NoSuchOperator as error:
                        left_out[str(error)] = left_out.get(str(error), 0) + 1
                        continue
                    found.setdefault((name, base64.b64encode(program).decode("ascii")), test)
        changed.clear()
        for function in seen.values():
            if (program := loops_document(function, left_out)) is not None:
                loops.setdefault(program, test)
        seen.clear()

    with instrumented(lambda: Pairs(changed, seen)):
        note = run_tests(path, base64.b64decode(content).decode("utf-8", "replace"), after_each)
    models = [[test, name, program] for (name, program), test in found.items()]
    read = [[test, name, program] for (name, program), test in graphs.items()]
    alone = [[test, program] for program, test in loops.items()]
    notes = [note] if note else []
    return {"models": models, "graphs": read, "loops": alone, "notes": notes, "left_out": left_out}


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
