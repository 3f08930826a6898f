"""How far a campaign can be spread: what its writer costs and what it sends, measured; then simulated.

A block is 16 tests; it may begin when the epochs up to the second before its own have ended. The simulation
plays that rule, the writer's CPU time for each block and what a block sends, for up to 1,000 workers.

On Ray itself: workers whose tests wait instead of computing, as those on other machines do for this one,
beside what the simulation says of them.
"""

import heapq
import pickle
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from generators.feedback import NOTHING, CoverageSnapshot, FeedbackSchedule, blocks_before
from generators.fuzz import Tested as OneTest
from generators.fuzz import fuzz, judge_cases
from generators.legality import ANYTHING
from generators.mixture import PLAN, make_tests
from generators.seeds import BLOCK
from oracles.verdict import Outcome, Phase, Verdict
from tests.helpers.campaigns import Remembering
from triage.campaigns.coverage_sync import CoverageSync
from triage.campaigns.ray_testers import ActorPool, Greeting
from triage.store.database import Store

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
needs_ray = pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed")
TESTS = 2048
TEST_SECONDS = {"onnxruntime": 1 / 205, "TVM": 50 / 205}
"""CPU seconds of a test of `mixed`, by bench_fuzz."""
NETWORK = 125e6
"""Bytes a second of a gigabit network."""
BLOCKS = 6000
WAIT, WRITER = 0.025, 0.0015
"""Seconds of a test that waits, and of what this process does for each block of them."""


def measured(tmp_path: Path) -> tuple[float, float, float]:
    """CPU seconds of the writer a block, bytes that a block sends, bytes of the last lesson."""
    verdict, sent, lessons = Verdict(Outcome.PASS, Phase.EXECUTE, "fine"), [0], [0]

    def tester(seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> list[OneTest]:
        start = time.process_time()
        found = list(judge_cases(make_tests(PLAN, seeds, lesson), lambda case, thorough: verdict, seconds))
        text = pickle.dumps([replace(each, met=None) for each in found])
        sent[0] += len(text)
        if seeds.start == TESTS - BLOCK:
            lessons[0] = len(pickle.dumps(lesson))
        away[0] += time.process_time() - start
        return list(pickle.loads(text))

    away = [0.0]
    with Store(tmp_path / "crux.db") as store:
        teaching = CoverageSync(store, "ort", 0)
        start = time.process_time()
        for _ in fuzz([tester], seed=0, tests=TESTS, teacher=teaching):
            pass
        teaching.keep()
        own = time.process_time() - start - away[0]
    blocks = TESTS / BLOCK
    return own / blocks, sent[0] / blocks, float(lessons[0])


@dataclass(frozen=True)
class Load:
    """What a campaign asks of a cluster: seconds of a test and of the writer a block, bytes a block."""

    test: float
    writer: float
    size: float
    spread: float = 0.5
    first: int = 0
    blocks: int = BLOCKS


@cache
def waits_for(block: int) -> int:
    """How many blocks must have ended before a block may begin."""
    return blocks_before(block)


def simulated(workers: int, load: Load, *, epochs: bool = True) -> float:
    """Blocks a second that so many workers come to; without `epochs` no block waits for another."""
    draws = random.Random(0)
    free = [0.0] * workers
    heapq.heapify(free)
    ended: list[float] = [0.0] * load.first
    known, written, wire = 0.0, 0.0, 0.0
    for block in range(load.first, load.first + load.blocks):
        wanted = waits_for(block) if epochs else 0
        ready = ended[wanted - 1] if wanted else 0.0
        start = max(heapq.heappop(free), ready)
        done = start + BLOCK * load.test * draws.uniform(1 - load.spread, 1 + load.spread)
        heapq.heappush(free, done)
        wire = max(wire, done) + load.size / NETWORK
        written = max(written, wire) + load.writer
        known = max(known, written)
        ended.append(known)
    return load.blocks / known


def test_what_a_cluster_comes_to(tmp_path, capsys):
    writer, size, lesson = measured(tmp_path)
    with capsys.disabled():
        print(f"\nwriter {1000 * writer / BLOCK:.2f} ms a test, {size / BLOCK:.0f} bytes a test,", end=" ")
        print(f"lesson after {TESTS} tests {lesson / 1e6:.2f} MB; {TESTS} tests, {BLOCKS} blocks simulated")
        for name, seconds in TEST_SECONDS.items():
            load, free = Load(seconds, writer, size), Load(seconds, 0.0, 0.0)
            print(f"  {name}: workers, times one; without epochs; with a free writer")
            for workers in (2, 4, 16, 64, 128, 256, 512, 1000):
                found = simulated(workers, load) / simulated(1, load)
                apart = simulated(workers, load, epochs=False) / simulated(1, load)
                easy = simulated(workers, free) / simulated(1, free)
                print(f"    {workers}: {found:.1f}; {apart:.1f}; {easy:.1f}")


def timed(tests: Iterable[OneTest]) -> float:
    """Seconds by the wall."""
    start = time.monotonic()
    for _ in tests:
        pass
    return time.monotonic() - start


class Waiting:
    """A worker on another machine, as this one sees it: it makes programs, and the tests only take time."""

    def greeting(self) -> Greeting:
        return "", None, ANYTHING

    def test(self, seeds: range, seconds: float, lesson: CoverageSnapshot | None) -> list[OneTest]:
        end = time.monotonic() + WAIT * len(seeds)
        fine = Verdict(Outcome.PASS, Phase.EXECUTE, "fine")
        found = list(judge_cases(make_tests(PLAN, seeds, lesson), lambda case, thorough: fine, seconds))
        time.sleep(max(end - time.monotonic(), 0.0))
        return found


@needs_ray
@pytest.mark.parametrize("first", [0, 512])
def test_workers_that_wait(first, capsys):
    ray: Any = import_module("ray")
    blocks, one, said = 48, 0.0, []
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        crew = ActorPool(ray, ray.remote(num_cpus=1)(Waiting).remote, 4)
        for _ in fuzz([crew.test] * 4, seed=1 << 20, tests=4 * BLOCK):
            pass  # all have begun
        for workers in (1, 2, 4):
            teacher = Remembering(first * BLOCK)
            teacher.course, teacher.first = FeedbackSchedule(NOTHING, first), 0
            run = fuzz([crew.test] * workers, seed=first * BLOCK, tests=blocks * BLOCK, teacher=teacher)
            wall = timed(run)
            one = one or wall
            load = Load(WAIT, WRITER, 0.0, spread=0.0, first=first, blocks=blocks)
            said.append((workers, wall, one / wall, simulated(workers, load) / simulated(1, load)))
    finally:
        ray.shutdown()
    with capsys.disabled():
        print(f"\nblocks {first} to {first + blocks}, tests that wait {1000 * WAIT:.0f} ms:")
        for workers, wall, times, expected in said:
            print(f"  {workers} workers: {wall:.1f} s, {times:.2f} times, simulated {expected:.2f}")
