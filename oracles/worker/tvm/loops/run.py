"""A `tir` program in TVM: passes, one of the pipelines, code, and one call of the first function.

The pipeline `least` only lowers: what the code generator cannot do without, and nothing that simplifies,
hoists, unrolls, vectorises or shares. With LLVM at level 0 it is the un-optimised baseline.
"""

from __future__ import annotations

import ast
import json
import operator
from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import tvm
from tvm import tirx
from tvm.tirx.build import split_host_device_mods, tir_to_runtime

from oracles.worker.onnx.program import to_array
from oracles.worker.tvm.loops.build import build_module
from oracles.worker.tvm.loops.checks import checked_passes
from oracles.worker.tvm.passes import LEAST
from oracles.worker.tvm.watch import apply_passes

RETURNED = "(returned)"
"""The name of what a function returns, among its outputs."""


def run_program(
    program: bytes,
    inputs: dict[str, Any],
    settings: dict[str, Any],
    outputs: Any,
    target: Any,
    enter: Callable[[str], None],
) -> dict[str, Any]:
    """Call the program once; return its buffers and its result, or nothing if it is not to be executed."""
    document = json.loads(program)
    entry = next(iter(document["functions"]))
    module = entered(build_module(document), entry)
    enter("optimise")
    with target:
        module = (checked_passes if settings.get("checks") else apply_passes)(module, settings)
        if settings.get("run") == "passes":
            return {}
        module = lowered(module, target, str(settings.get("pipeline", "default")))
        if settings.get("thin") and b'["assert"' not in program:
            module = tirx.transform.SkipAssert()(
                module
            )  # those that check arguments: half of what is compiled
    enter("codegen")
    host, devices = split_host_device_mods(module)
    _, finish_host, finish_device = tirx.get_tir_pipeline("default")
    devices = {kind: finish_device()(each) for kind, each in devices.items()}
    compiled = tir_to_runtime(finish_host()(host), devices, target.host or target)
    device = tvm.cuda() if settings.get("device") == "cuda" else tvm.cpu()
    if settings.get("run") == "off" or not device.exist:
        return {}
    function = compiled[entry]  # what compiles it for this machine
    enter("execute")
    return called(function, document["functions"][entry], inputs, outputs, device)


def entered(module: Any, entry: str) -> Any:
    """Return the module with its first function visible from outside."""
    function = module[entry]
    if not (function.attrs and "global_symbol" in function.attrs):
        module = tvm.IRModule(dict(module.functions.items()), attrs=module.attrs)
        module[module.get_global_var(entry)] = function.with_attr("global_symbol", entry)
    return module


def lowered(module: Any, target: Any, pipeline: str) -> Any:
    """Return the module as the code generator takes it."""
    bound = tirx.transform.BindTarget(target if target.host else target.with_host(target))(module)
    if pipeline == "least":
        return tvm.ir.transform.Sequential(least())(bound)
    return tirx.get_tir_pipeline("default")[0](bound)


def least() -> list[Any]:
    """Return the passes that lower and do nothing else."""
    return [_made(code) for code in LEAST]


def _made(code: str) -> Any:
    """Return the pass of an expression such as `tirx.transform.VectorizeLoop(False)`."""
    path, _, rest = code.partition("(")
    return operator.attrgetter(path)(tvm)(*ast.literal_eval(f"({rest[:-1]},)" if rest[:-1] else "()"))


def called(
    compiled: Any, function: dict[str, Any], inputs: dict[str, Any], outputs: Any, device: Any
) -> dict[str, Any]:
    """Call the compiled function once: parameters in order, buffers filled, results copied back."""
    passed, kept = [], {}
    for item in function["params"]:
        if isinstance(item, list):
            passed.append(to_array(inputs[item[0]]).reshape(()).item())
            continue
        kept[item["name"]] = tvm.runtime.tensor(to_array(inputs[item["name"]]), device)
        passed.append(kept[item["name"]])
    returned = compiled(*passed)
    found = {name: value.numpy() for name, value in kept.items()}
    if function["returns"] not in ("void", "missing") or returned is not None:
        found[RETURNED] = number(returned, function["returns"])
    return found if outputs is None else {name: found[name] for name in outputs}


def number(value: Any, dtype: str) -> Any:
    """Return a returned number, in the type that the function declares where numpy has it."""
    import numpy as np

    return np.array(value, None if dtype in ("void", "missing", "handle") else dtype)
