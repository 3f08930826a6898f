"""A first look at many TIR programs together: which need a verdict of their own, and what they met.

One worker compiles them as one library (`oracles/worker/tvm/tir/batch.py`), which costs about a third of
one after the other. A program that ends well here gets its verdict from these runs; every other one is judged
by itself, so no failure rests on what stood beside it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from corpus.case import Case
from corpus.values import Value
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Outcome, Phase, Run, Status, Verdict

REPORT = "(report)"
"""The output of a batch that tells of each program; as in the worker."""


@dataclass(frozen=True, slots=True)
class Screened:
    """The runs of one program by configuration, and the coverage of its passes."""

    runs: tuple[Run, ...]
    covered: frozenset[str]


def screen(executor: Executor, cases: Sequence[Case], configs: Sequence[Config]) -> list[Screened | None]:
    """Each case's runs by these ways; None for one that has to be looked at alone.

    One that does not end well by one way is left out of the next.
    """
    alive, seen = dict(enumerate(cases)), dict.fromkeys(range(len(cases)), Screened((), frozenset()))
    for config in configs:
        found = _looked(executor, alive, config)
        seen = {
            number: Screened((*seen[number].runs, *each.runs), seen[number].covered | each.covered)
            for number, each in found.items()
        }
        alive = {number: alive[number] for number in found}
    return [seen.get(number) for number in range(len(cases))]


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
    programs = ",".join(
        f'{{"passes": {json.dumps(case.passes)}, "document": {case.program.decode()}}}' for case in cases
    )
    return f'{{"batch": [{programs}]}}'.encode()


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
        number: Screened((_run(place, config, run),), frozenset(map(str, told.get("covered", ()))))
        for place, (number, told) in enumerate(zip(numbers, reports, strict=True))
        if "error" not in told
    }


def _run(number: int, config: Config, run: Run) -> Run:
    prefix = f"{number}/"
    outputs = {
        name.removeprefix(prefix): value for name, value in run.outputs.items() if name.startswith(prefix)
    }
    return Run(config, Status.OK, Phase.EXECUTE, outputs)


def passing(look: Screened) -> Verdict:
    """The verdict on a program whose first look shows nothing."""
    return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=look.runs)
