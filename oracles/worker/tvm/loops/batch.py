"""Many `tir` programs in one go: each through its own passes and the pipeline, all in one compiled library.

What a small program costs is mostly LLVM's start and the checks of arguments that TVM puts around each
function; here the first is paid once and the second is left out. A program that fails by itself is told so
and left out; so nothing that this finds is a verdict, it only shows which programs need one.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np
import tvm
from tvm import tirx
from tvm.tirx.build import split_host_device_mods, tir_to_runtime

from oracles.worker.tvm.loops import run
from oracles.worker.tvm.loops.build import build_module
from oracles.worker.tvm.loops.checks import checked_passes
from oracles.worker.tvm.loops.cover import Cover
from oracles.worker.tvm.watch import apply_passes, configured, instrumented

REPORT = "(report)"
"""The output that holds what is told of each program, as JSON: its `error` and what it `covered`."""


def run_batch(
    program: bytes,
    inputs: dict[str, Any],
    settings: dict[str, Any],
    target: Any,
    enter: Callable[[str], None],
) -> dict[str, Any]:
    """Return the outputs of the programs that ran, by `number/name`, and the report of all."""
    items = json.loads(program)["batch"]
    reports: list[dict[str, Any]] = [{} for _ in items]
    enter("optimise")
    prepared = {}
    for number, item in enumerate(items):
        try:
            prepared[number] = prepare(item, number, settings, target, reports[number])
        except Exception as error:  # that program's own failure
            reports[number]["error"] = str(error)[-300:]
    enter("codegen")
    outputs: dict[str, Any] = {}
    for numbers, library in compiled(prepared, tuple(prepared), target, reports):
        enter("execute")
        for number in numbers:
            given = given_to(number, inputs)
            function = items[number]["document"]["functions"]
            try:
                found = run.called(library[symbol(number)], next(iter(function.values())), given, None, None)
            except Exception as error:
                reports[number]["error"] = str(error)[-300:]
                continue
            outputs.update({f"{number}/{name}": value for name, value in found.items()})
        enter("codegen")
    outputs[REPORT] = np.array([json.dumps(reports)], dtype=object)
    return outputs


def symbol(number: int) -> str:
    """Return the name of a program's function in the library of all."""
    return f"program{number}"


def given_to(number: int, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs of one program by their own names."""
    prefix = f"{number}/"
    return {name[len(prefix) :]: value for name, value in inputs.items() if name.startswith(prefix)}


def prepare(
    item: dict[str, Any], number: int, settings: dict[str, Any], target: Any, report: dict[str, Any]
) -> Any:
    """Return a program's lowered functions, without the checks of arguments."""
    document = item["document"]
    (function,) = document["functions"].values()
    attrs = {**function["attrs"], "global_symbol": symbol(number)}
    named = {**document, "functions": {symbol(number): {**function, "attrs": attrs}}}
    own = {} if settings.get("plain") else {"passes": item["passes"]}
    pieces: set[str] = set()
    cover = Cover(pieces) if settings.get("cover") else None
    with configured(own), instrumented(lambda: cover) if cover else nullcontext(), target:
        module = build_module(named)
        module = checked_passes(module, own) if settings.get("checks") else apply_passes(module, own)
        module = run.lowered(module, target, str(settings.get("pipeline", "default")))
        module = tirx.transform.SkipAssert()(module)
        host, devices = split_host_device_mods(module)
        if devices:
            raise NotImplementedError("code for a device")
        host = tirx.get_tir_pipeline("default")[1]()(host)
    report["covered"] = sorted(pieces)
    return dict(host.functions.items())  # helpers are named after the program


def compiled(
    prepared: dict[int, Any], numbers: tuple[int, ...], target: Any, reports: list[dict[str, Any]]
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Libraries of the programs, one for all of them, or halves of them where that cannot be compiled."""
    if not numbers:
        return
    module = tvm.IRModule({var: each for number in numbers for var, each in prepared[number].items()})
    try:
        library = tir_to_runtime(module, {}, target.host or target)
        for number in numbers:
            library[symbol(number)]  # compiled as it is looked up
    except Exception as error:
        if len(numbers) == 1:
            reports[numbers[0]]["error"] = str(error)[-300:]
            return
        middle = len(numbers) // 2
        yield from compiled(prepared, numbers[:middle], target, reports)
        yield from compiled(prepared, numbers[middle:], target, reports)
        return
    yield numbers, library
