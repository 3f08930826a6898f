"""Opening a user's Relax module in a worker: TVMScript, or TVM's JSON."""

from __future__ import annotations

import contextlib
import linecache
import sys
import types
from typing import Any

import numpy as np
import tvm

from oracles.in_worker.arrays import encoded_array
from oracles.in_worker.relax_graph import NotData, read_module, to_module

SCRIPT = "crux_script"
"""What the script's module is called; TVM's parser looks its source up by that."""


def capture(name: str, content: bytes) -> dict[str, Any]:
    """The module as data with the inputs that came along; NotData in words where there is none."""
    inputs: list[Any] = []
    if name.endswith(".json"):
        module = tvm.ir.load_json(content.decode())
        if not isinstance(module, tvm.ir.IRModule):
            raise NotData("the JSON holds no module")
    else:
        module, inputs = scripted(name, content.decode())
    document = read_module(module)
    rebuilt = to_module(document)
    names = [item[0] for item in document["main"]["inputs"]]
    feeds = {names[at]: encoded_array(np.asarray(value)) for at, value in enumerate(inputs[: len(names)])}
    same = tvm_ffi_equal(tvm.relax.transform.Normalize()(module), rebuilt)
    note = (
        "TVM does not find the module equal to the one that was read: it was written anew from its bindings"
    )
    return {**document, "inputs": feeds, "notes": [] if same else [note]}


def tvm_ffi_equal(left: Any, right: Any) -> bool:
    import tvm_ffi

    return bool(tvm_ffi.structural_equal(left, right, map_free_vars=True))


def scripted(name: str, text: str) -> tuple[Any, list[Any]]:
    """The module that a script makes: `model`, `mod` or `Module`, else the last one; its `inputs` if any."""
    space = types.ModuleType(SCRIPT)
    space.__file__ = name
    sys.modules[SCRIPT] = space
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    sys.argv = [name]
    names = vars(space)
    with contextlib.suppress(SystemExit):
        exec(compile(text, name, "exec"), names)
    found = {key: each for key, each in names.items() if isinstance(each, tvm.ir.IRModule)}
    if not found:
        raise NotData("the script makes no module (a class under @I.ir_module)")
    named = [found[key] for key in ("model", "mod", "Module") if key in found]
    given = names.get("inputs", [])
    values = list(given.values()) if isinstance(given, dict) else list(given)
    return (named or list(found.values())[-1:])[0], [plain(value) for value in values]


def plain(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value
