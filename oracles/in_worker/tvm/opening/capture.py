"""Opening a user's module in a worker, Relax or PrimFuncs alone: TVMScript, or TVM's JSON."""

from __future__ import annotations

from typing import Any, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np
import tvm
import tvm_ffi

from oracles.in_worker.arrays import encoded_array
from oracles.in_worker.tvm.build import to_module
from oracles.in_worker.tvm.opening.script import Scripted, scripted
from oracles.in_worker.tvm.read import read_module
from oracles.in_worker.tvm.tir import read as tir_read
from oracles.in_worker.tvm.tir.build import build_module
from oracles.in_worker.tvm.types import NotData

REWRITTEN = (
    "TVM does not find the module equal to the one that was read: it was written anew from its bindings"
)


def capture(name: str, content: bytes) -> dict[str, Any]:
    """Return the module as data with the inputs that came along; NotData in words where there is none."""
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
    """Return whether every function of a module is a PrimFunc."""
    functions = list(module.functions.values())
    return bool(functions) and all(isinstance(each, tvm.tirx.PrimFunc) for each in functions)


def loops(seen: Scripted) -> dict[str, Any]:
    """Return a module of PrimFuncs as a `tir` document; inputs are those of its first function, in order."""
    document = tir_read.read_module(seen.module)
    function = next(iter(document["functions"].values()))
    pairs = zip(function["params"], leaves(seen.inputs))  # noqa: B905 (Python 3.8)
    feeds = dict(fed(item, value) for item, value in pairs)
    same = equal(seen.module, build_module(document))
    notes = [*seen.notes, *([] if same else [REWRITTEN])]
    return {"format": "tir", "document": document, "inputs": feeds, "notes": notes}


def fed(item: Any, value: Any) -> tuple[str, Any]:
    """Return a parameter's name and its value; a number is of the type that the function declares."""
    if isinstance(item, dict):
        return item["name"], encoded_array(np.asarray(value))
    return item[0], encoded_array(np.asarray(value, item[1]))


def kept(text: str) -> Scripted:
    """Return a module in TVM's own JSON."""
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
