"""Many TIR programs in TVM as one library: a small one costs LLVM's start and the checks of arguments."""

import json
from contextlib import nullcontext
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np
import tvm
from tvm import tirx
from tvm.tirx.build import split_host_device_mods, tir_to_runtime

from oracles.worker.batches import REPORT, given_to, items_of, short, told_of
from oracles.worker.tvm.tir.build import build_module
from oracles.worker.tvm.tir.run import PLAINLY, Cover, called, checked_passes, is_watched, lowered
from oracles.worker.tvm.tir.workspaces import must_hold, with_workspaces
from oracles.worker.tvm.watch import apply_passes, configured, instrumented


def run_batch(
    program: bytes,
    inputs: dict[str, Any],
    settings: dict[str, Any],
    target: Any,
    enter: Callable[..., None],
) -> dict[str, Any]:
    """The outputs of the programs that ran, by `number/name`, and the report; each is told as it begins."""
    items = [{"document": json.loads(text), "passes": passes} for text, passes in items_of(program)]
    reports: list[dict[str, Any]] = [{} for _ in items]
    prepared = {}
    for number, item in enumerate(items):
        enter("optimise", number + 1)
        try:
            prepared[number] = prepare(item, number, settings, target, reports[number])
        except Exception as error:  # that program's own failure
            reports[number]["error"] = short(error)
    enter("codegen")
    outputs: dict[str, Any] = {}

    def call(number: int, compiled: Any) -> dict[str, Any]:
        enter("execute", number + 1)
        function = next(iter(items[number]["document"]["functions"].values()))
        return called(compiled, function, given_to(number, inputs), None, None)

    def watched_call(number: int, compiled: Any) -> dict[str, Any]:
        must_hold(lambda: call(number, compiled))
        return {}

    watched = {number: each for number, (_, each) in prepared.items() if each}
    plainly = tvm.target.Target(PLAINLY)
    plain = {number: each for number, (each, _) in prepared.items()}
    for functions, way, run in ((plain, target, call), (watched, plainly, watched_call)):
        for numbers, library in compiled(functions, tuple(functions), way, reports):
            outputs.update(each_called(numbers, library, run, reports))
            enter("codegen")
    outputs[REPORT] = np.array([json.dumps(reports)], dtype=object)
    return outputs


def each_called(
    numbers: tuple[int, ...],
    library: Any,
    run: Callable[[int, Any], dict[str, Any]],
    reports: list[dict[str, Any]],
) -> dict[str, Any]:
    """The outputs of the programs of a library, by `number/name`; a failure is put into its report."""
    outputs: dict[str, Any] = {}
    for number in numbers:
        try:
            found = run(number, library[symbol(number)])
        except Exception as error:
            reports[number]["error"] = short(error)
            continue
        outputs.update(told_of(number, found))
    return outputs


def symbol(number: int) -> str:
    """The name of a program's first function in the library of all."""
    return f"program{number}"


def prepare(
    item: dict[str, Any], number: int, settings: dict[str, Any], target: Any, report: dict[str, Any]
) -> "tuple[dict[Any, Any], dict[Any, Any]]":
    """A program's lowered functions without the checks of arguments, and these with guarded workspaces."""
    document = item["document"]
    entry, function = next(iter(document["functions"].items()))
    attrs = {**function["attrs"], "global_symbol": symbol(number)}
    named = {**document, "functions": {**document["functions"], entry: {**function, "attrs": attrs}}}
    own = {} if settings.get("plain") else {"passes": item["passes"]}
    pieces: set[str] = set()
    cover = Cover(pieces) if settings.get("cover") else None
    with configured(own), instrumented(lambda: cover) if cover else nullcontext(), target:
        module = build_module(named, symbol(number))
        module = checked_passes(module, own) if settings.get("checks") else apply_passes(module, own)
        module = lowered(module, target, str(settings.get("pipeline", "default")))
        module = tirx.transform.SkipAssert()(module)
        plain = on_host(module)
    report["covered"] = sorted(pieces)
    watched = with_workspaces(module) if is_watched(settings) else None
    return plain, on_host(watched) if watched is not None else {}


def on_host(module: Any) -> dict[Any, Any]:
    """The functions of a lowered module as the code generator takes them."""
    host, devices = split_host_device_mods(module)
    if devices:
        raise NotImplementedError("code for a device")
    # helpers have the program's name
    return dict(tirx.get_tir_pipeline("default")[1]()(host).functions.items())


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
            reports[numbers[0]]["error"] = short(error)
            return
        middle = len(numbers) // 2
        yield from compiled(prepared, numbers[:middle], target, reports)
        yield from compiled(prepared, numbers[middle:], target, reports)
        return
    yield numbers, library
