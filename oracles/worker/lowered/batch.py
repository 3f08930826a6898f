"""Many ONNX programs in torch: eagerly one after the other, compiled as one graph of independent parts.

So the start of dynamo, of inductor's wrapper and of the C++ compiler are paid once, and one kernel holds the
loops of several programs. What is in one graph is scheduled together: a program that fails alone and passes
here is possible, and was not met in the programs that were run both ways (BENCHMARKS.md).
"""

import json
from typing import Any, Callable, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np
import torch

from oracles.worker.batches import REPORT, given_to, items_of, short, told_of
from oracles.worker.lowered.module import build_together, named_dims
from oracles.worker.onnx import read_model
from oracles.worker.torch.data import from_torch, on_device, placed
from oracles.worker.torch.joined import joined
from oracles.worker.torch.run import compiled, mark_dims, watched


def run_batch(
    program: bytes, inputs: dict[str, Any], settings: dict[str, Any], enter: Callable[..., None]
) -> dict[str, Any]:
    """The outputs of the programs that ran, by `number/name`, and the report.

    Programs with other options of inductor are compiled apart; of those that cannot be compiled together
    halves are tried.
    """
    items = items_of(program)
    models = [(read_model(each), given_to(number, inputs)) for number, (each, _) in enumerate(items)]
    is_eager = settings.get("backend") == "eager"

    def called(numbers: Sequence[int]) -> dict[str, Any]:
        if is_eager:
            enter("execute", numbers[0] + 1)
        module, feeds = build_together([models[number] for number in numbers])
        module, feeds = placed(module, feeds, settings)
        if not is_eager:
            dims = named_dims([models[number][0] for number in numbers])
            module = compiled(module, settings["backend"], enter, mark_dims(dims, feeds))
        with on_device(settings):
            values = iter(module(*feeds))
        found: dict[str, Any] = {}
        for number in numbers:
            names = [value.name for value in models[number][0].graph.output]
            found.update(told_of(number, {name: from_torch(next(values)) for name in names}))
        return found

    outputs: dict[str, Any] = {}
    reports: list[dict[str, Any]] = [{} for _ in items]
    for options, numbers in grouped([() if settings.get("plain") else own for _, own in items]):
        with watched({**settings, "passes": options}), joined(), torch.no_grad():
            for part in [[number] for number in numbers] if is_eager else [numbers]:
                outputs.update(called_in_parts(called, part, reports))
    outputs[REPORT] = np.array([json.dumps(reports)], dtype=object)
    return outputs


def grouped(options: Sequence[Sequence[str]]) -> list[tuple[tuple[str, ...], list[int]]]:
    """The programs' numbers by their options."""
    found: dict[tuple[str, ...], list[int]] = {}
    for number, each in enumerate(options):
        found.setdefault(tuple(each), []).append(number)
    return list(found.items())


def called_in_parts(
    called: Callable[[Sequence[int]], dict[str, Any]], numbers: Sequence[int], reports: list[dict[str, Any]]
) -> dict[str, Any]:
    """The outputs of programs that are called together, or of those of their halves where that raises."""
    try:
        return called(numbers)
    except Exception as error:
        if len(numbers) == 1:
            reports[numbers[0]]["error"] = short(error)
            return {}
    middle = len(numbers) // 2
    first, second = (called_in_parts(called, part, reports) for part in (numbers[:middle], numbers[middle:]))
    return {**first, **second}
