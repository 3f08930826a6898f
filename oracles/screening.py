"""A first look at many TIR programs together: which need a verdict of their own, and what they met.

One worker compiles them as one library (`oracles/worker/tvm/tir/batch.py`), which costs about a third of
one after the other. A program that ends well here gets its verdict from these runs; every other one is judged
by itself, so no failure rests on what stood beside it.
"""

import json
from collections.abc import Sequence
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
    """Each case's runs by these ways; None for one that has to be looked at alone."""
    if not cases:
        return []
    job = Job(_together(cases), _inputs(cases), tuple(map(_as_batch, configs)), format=cases[0].format)
    runs = executor.run(job)
    if all(run.is_ok for run in runs):
        reports = [_report(run) for run in runs]
        return [_screened(number, configs, runs, reports) for number in range(len(cases))]
    is_slow = any(run.status in (Status.TIMEOUT, Status.OUT_OF_MEMORY) for run in runs)
    if len(cases) == 1 or is_slow:
        return [None] * len(cases)
    middle = len(cases) // 2
    return [*screen(executor, cases[:middle], configs), *screen(executor, cases[middle:], configs)]


def _report(run: Run) -> list[dict[str, object]]:
    told: list[dict[str, object]] = json.loads(str(np.asarray(run.outputs[REPORT]).ravel()[0]))
    return told


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


def _screened(
    number: int, configs: Sequence[Config], runs: Sequence[Run], reports: Sequence[list[dict[str, object]]]
) -> Screened | None:
    told = [report[number] for report in reports]
    if any("error" in each for each in told):
        return None
    covered = frozenset(piece for each in told for piece in _texts(each.get("covered")))
    own = tuple(_run(number, config, run) for config, run in zip(configs, runs, strict=True))
    return Screened(own, covered)


def _texts(found: object) -> list[str]:
    return [str(each) for each in found] if isinstance(found, list) else []


def _run(number: int, config: Config, run: Run) -> Run:
    prefix = f"{number}/"
    outputs = {
        name.removeprefix(prefix): value for name, value in run.outputs.items() if name.startswith(prefix)
    }
    return Run(config, Status.OK, Phase.EXECUTE, outputs)


def passing(look: Screened) -> Verdict:
    """The verdict on a program whose first look shows nothing."""
    return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=look.runs)
