"""Blocks of the compiler's own code that strategies reach over CPU time, in one run: bands over seeds.

`CRUX_REACH_SECONDS` are the CPU seconds of each line (40), `CRUX_REACH_SEEDS` how many seeds (3),
`CRUX_REACH_STRATEGIES` which strategies, `CRUX_REACH_PLOT` a file for the picture (SVG);
`CRUX_NNSMITH_PYTHON` a Python that has NNSmith 0.1.0, whose models the same judge then runs.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus.target import Target
from generators.feedback import BLOCK, CoverageSnapshot
from generators.fuzz import Tested as OneTest
from generators.fuzz import fuzz, judge_cases
from generators.mixture import DrawnCase, Plan, make_tests
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.native.watching import Watch, find_libraries
from tests.bench.curves import picture, told
from tests.bench.nnsmith import PYTHON, made
from tests.helpers.campaigns import Remembering
from triage.campaigns.testers import judgement

pytestmark = [pytest.mark.bench, pytest.mark.timeout(6000)]
SECONDS = float(os.environ.get("CRUX_REACH_SECONDS", "40"))
SEEDS = int(os.environ.get("CRUX_REACH_SEEDS", "3"))
STRATEGIES = os.environ.get("CRUX_REACH_STRATEGIES", "random,coverage,mixed").split(",")
APART = 1 << 20
"""Between the first seeds of two campaigns."""
POINTS = 40

Curve = list[tuple[float, int]]
"""CPU seconds and blocks reached by then, beyond those of the start of the framework."""


def campaign(strategy: str, seed: int) -> tuple[Curve, int]:
    """One campaign of a strategy; how many tests it made."""
    plan = Plan(strategy, passes_of="ort")

    def drawn(seeds: range, lesson: CoverageSnapshot | None) -> Iterator[DrawnCase]:
        return make_tests(plan, seeds, lesson)

    return watched(drawn, seed * APART)


def nnsmith(seed: int) -> tuple[Curve, int]:
    """NNSmith's models of ten operators; the CPU time of making them counts, imports and the first do not."""
    spent = [0.0]

    def drawn(seeds: range, lesson: CoverageSnapshot | None) -> Iterator[DrawnCase]:
        with tempfile.TemporaryDirectory() as folder:
            programs, moments = made(Path(folder), seconds=SECONDS + 2, seed=seed * APART)
        for program, moment in zip(programs, moments, strict=True):
            spent[0] = moment
            yield DrawnCase(0, program.as_case(0), {})

    return watched(drawn, 0, others=lambda: spent[0])


def watched(
    drawn: Callable[[range, CoverageSnapshot | None], Iterator[DrawnCase]],
    seed: int,
    *,
    others: Callable[[], float] = lambda: 0.0,
) -> tuple[Curve, int]:
    """Blocks over CPU time: of this process, of its workers, and of `others`."""
    curve: Curve = []
    with (
        closing(Watch(find_libraries(find_backend("ort").libraries))) as watch,
        Judge(Target("ort"), watch=watch) as judge,
    ):
        assert judge.release
        start, verdict, tests = watch.ever(), judgement(judge), 0

        def cpu() -> float:
            return time.process_time() + judge.executor.cpu_seconds() + others()

        def worker(seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> Iterator[OneTest]:
            yield from judge_cases(drawn(seeds, lesson), verdict, seconds, watch.take)

        begun = cpu()
        for tests, _ in enumerate(fuzz([worker], seed=seed, teacher=Remembering(seed)), 1):
            if tests % BLOCK == 0:
                curve.append((cpu() - begun, len(watch.ever()) - len(start)))
                if curve[-1][0] >= SECONDS:
                    break
    return curve, tests


def at(curve: Curve, seconds: float) -> float:
    """The blocks after so many CPU seconds."""
    return float(np.interp(seconds, [moment for moment, _ in curve], [blocks for _, blocks in curve]))


def test_blocks_over_cpu_time(say):
    names: list[str] = list(STRATEGIES)
    names += ["nnsmith"] if PYTHON else []
    marks = np.linspace(SECONDS / POINTS, SECONDS, POINTS)
    bands: dict[str, NDArray[np.float64]] = {}
    for name in names:
        found = [nnsmith(s) if name == "nnsmith" else campaign(name, s) for s in range(SEEDS)]
        band = np.array([[at(curve, mark) for mark in marks] for curve, _ in found])
        bands[name] = band
        line = " ".join(
            f"{seconds:.0f}s {told(marks, band, seconds)}" for seconds in (SECONDS / 4, SECONDS / 2, SECONDS)
        )
        say(f"\n{name:9} tests {[tests for _, tests in found]}  {line}", end="")
    say()
    place = os.environ.get("CRUX_REACH_PLOT", "")
    if place:
        low = min(float(band[:, 0].min()) for band in bands.values()) * 0.9
        most = max(float(band.max()) for band in bands.values())
        title = "Blocks of onnxruntime reached, beyond those of its start"
        Path(place).write_text(picture(marks, bands, title, low, most))
