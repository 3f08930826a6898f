"""How far a campaign can be spread: what its writer costs and what it sends, measured; then simulated.

A block is 16 tests; it may begin when the epochs up to the second before its own have ended. The simulation
plays that rule, the writer's CPU time for each block and what a block sends, for up to 1,000 workers.
"""

import heapq
import pickle
import random
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from generators.feedback import BLOCK, CoverageSnapshot, blocks_before
from generators.fuzz import Tested as OneTest
from generators.fuzz import fuzz, judge_cases
from generators.mixture import PLAN, make_tests
from oracles.verdict import Outcome, Phase, Verdict
from triage.campaigns.coverage_sync import CoverageSync
from triage.store.database import Store

pytestmark = pytest.mark.bench
TESTS = 2048
TEST_SECONDS = {"onnxruntime": 1 / 205, "TVM": 50 / 205}
"""CPU seconds of a test of `mixed`, by bench_fuzz."""
NETWORK = 125e6
"""Bytes a second of a gigabit network."""
BLOCKS = 6000


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


def test_what_a_cluster_comes_to(tmp_path, say):
    writer, size, lesson = measured(tmp_path)
    say(f"\nwriter {1000 * writer / BLOCK:.2f} ms a test, {size / BLOCK:.0f} bytes a test,", end=" ")
    say(f"lesson after {TESTS} tests {lesson / 1e6:.2f} MB; {TESTS} tests, {BLOCKS} blocks simulated")
    for name, seconds in TEST_SECONDS.items():
        load, free = Load(seconds, writer, size), Load(seconds, 0.0, 0.0)
        say(f"  {name}: workers, times one; without epochs; with a free writer")
        for workers in (2, 4, 16, 64, 128, 256, 512, 1000):
            found = simulated(workers, load) / simulated(1, load)
            apart = simulated(workers, load, epochs=False) / simulated(1, load)
            easy = simulated(workers, free) / simulated(1, free)
            say(f"    {workers}: {found:.1f}; {apart:.1f}; {easy:.1f}")
