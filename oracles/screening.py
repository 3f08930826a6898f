"""A first look at many programs together: which need a verdict of their own, and what they met.

One worker compiles them at once (`run_batch` in `oracles/worker/tvm/tir`, `oracles/worker/lowered`), which
costs a third to two thirds of one after the other. A program that ends well here gets its verdict from these
runs; every other one is judged by itself, so no failure rests on what stood beside it.
"""

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from corpus.case import Case
from corpus.values import Value
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Outcome, Phase, Run, Status, Verdict
from oracles.worker.batches import REPORT, given_to


@dataclass(frozen=True, slots=True)
class Screened:
    """The runs of one program by configuration, and the coverage of its passes."""

    runs: tuple[Run, ...]
    covered: frozenset[str]


def screen(
    executor: Executor,
    cases: Sequence[Case],
    configs: Sequence[Config],
    lower: Sequence[Config] = (),
    thorough: Collection[int] = (),
) -> list[Screened | None]:
    """Each case's runs by these ways, those at the places `thorough` also by the `lower` ones.

    None for one that has to be looked at alone: what does not end well by one way is left out of the next.
    """
    seen = dict.fromkeys(range(len(cases)), Screened((), frozenset()))
    for config in (*configs, *lower):
        asked = {at: cases[at] for at in seen if config in configs or at in thorough}
        found = _looked(executor, asked, config)
        for at in asked:
            before, now = seen.pop(at), found.get(at)
            if now is not None:
                seen[at] = Screened((*before.runs, *now.runs), before.covered | now.covered)
    return [seen.get(at) for at in range(len(cases))]


def _looked(executor: Executor, cases: Mapping[int, Case], config: Config) -> dict[int, Screened]:
    """The runs of those that end well by one way.

    Where the process dies at a program, those before it and those behind it go on, in two batches: what one
    did to the memory of all shows in its own half. Where it dies at none, halves are tried.
    """
    if not cases:
        return {}
    programs, numbers = list(cases.values()), tuple(cases)
    job = Job(_together(programs), _inputs(programs), (_as_batch(config),), format=programs[0].format)
    (run,) = executor.run(job)
    if run.is_ok:
        return _screened(numbers, config, run)
    # A program that writes where it should not may have written over which one was running.
    killer, middle = run.program if run.program <= len(numbers) else 0, len(numbers) // 2
    if not killer and (len(numbers) == 1 or run.status in (Status.TIMEOUT, Status.OUT_OF_MEMORY)):
        return {}
    parts = (numbers[: killer - 1], numbers[killer:]) if killer else (numbers[:middle], numbers[middle:])
    first, second = (_looked(executor, {each: cases[each] for each in part}, config) for part in parts)
    return first | second


def _together(cases: Sequence[Case]) -> bytes:
    batch = [{"program": base64.b64encode(case.program).decode(), "passes": case.passes} for case in cases]
    return json.dumps({"batch": batch}).encode()


def _inputs(cases: Sequence[Case]) -> dict[str, Value]:
    return {
        f"{number}/{name}": value for number, case in enumerate(cases) for name, value in case.inputs.items()
    }


def _as_batch(config: Config) -> Config:
    """The way as a batch takes it; passes are watched closely where they run."""
    is_plain = config.get("passes") == ()
    more = (("plain", 1),) if is_plain else (("cover", 1), ("checks", 1))
    return replace(config, settings=(*config.settings, ("batch", 1), *more))


def _screened(numbers: Sequence[int], config: Config, run: Run) -> dict[int, Screened]:
    """What one batch says of each of its programs that ended well."""
    reports = json.loads(str(np.asarray(run.outputs[REPORT]).ravel()[0]))
    return {
        number: Screened(
            (_run(place, config, run, len(reports)),), frozenset(map(str, told.get("covered", ())))
        )
        for place, (number, told) in enumerate(zip(numbers, reports, strict=True))
        if "error" not in told
    }


def _run(number: int, config: Config, run: Run, count: int) -> Run:
    """The run of one of so many programs, with its share of the CPU time."""
    outputs = given_to(number, dict(run.outputs))
    return Run(config, Status.OK, Phase.EXECUTE, outputs, cpu_seconds=run.cpu_seconds / count)


def passing(look: Screened) -> Verdict:
    """The verdict on a program whose first look shows nothing."""
    return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=look.runs)
