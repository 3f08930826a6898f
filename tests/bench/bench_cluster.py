"""How far a campaign can be spread: what its writer costs and what it sends, measured; then simulated.

A block is 16 tests; it may begin when the epochs up to the second before its own have ended. The simulation
plays that rule, the writer's CPU time for each block and what a block sends, for up to 1,000 workers.
"""

from __future__ import annotations

import heapq
import pickle
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from generators.fuzz import Tested as OneTest
from generators.fuzz import fuzz, judge_cases
from generators.learning import Lesson, blocks_before
from generators.mixture import BLOCK, PLAN, make_tests
from oracles.run import Phase
from oracles.verdict import Outcome, Verdict
from triage.campaigns.teaching import Teaching
from triage.store.database import Store

pytestmark = pytest.mark.bench
TESTS = 2048
TEST_SECONDS = 1 / 205
"""CPU seconds of a test of `mixed` on onnxruntime, by bench_fuzz."""
NETWORK = 125e6
"""Bytes a second of a gigabit network."""
BLOCKS = 6000


def measured(tmp_path: Path) -> tuple[float, float, float]:
    """CPU seconds of the writer a block, bytes that a block sends, bytes of the last lesson."""
    verdict, sent, lessons = Verdict(Outcome.PASS, Phase.EXECUTE, "fine"), [0], [0]

    def tester(seeds: range, seconds: float, lesson: Lesson | None) -> list[OneTest]:
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
        teaching = Teaching(store, "ort", 0)
        start = time.process_time()
        for _ in fuzz([tester], seed=0, tests=TESTS, teacher=teaching):
            pass
        teaching.keep()
        own = time.process_time() - start - away[0]
    blocks = TESTS / BLOCK
    return own / blocks, sent[0] / blocks, float(lessons[0])


def simulated(workers: int, writer: float, size: float, *, epochs: bool = True) -> float:
    """Blocks a second that so many workers come to; without `epochs` no block waits for another."""
    draws = random.Random(0)
    free = [0.0] * workers
    heapq.heapify(free)
    ended: list[float] = []
    known, written, wire = 0.0, 0.0, 0.0
    for block in range(BLOCKS):
        wanted = blocks_before(block) if epochs else 0
        ready = ended[wanted - 1] if wanted else 0.0
        start = max(heapq.heappop(free), ready)
        done = start + BLOCK * TEST_SECONDS * draws.uniform(0.5, 1.5)
        heapq.heappush(free, done)
        wire = max(wire, done) + size / NETWORK
        written = max(written, wire) + writer
        known = max(known, written)
        ended.append(known)
    return BLOCKS / known


def test_what_a_cluster_comes_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer, size, lesson = measured(tmp_path)
    one = simulated(1, writer, size)
    with capsys.disabled():
        print(f"\nwriter {1000 * writer / BLOCK:.2f} ms a test, {size / BLOCK:.0f} bytes a test,", end=" ")
        print(f"lesson after {TESTS} tests {lesson / 1e6:.2f} MB; {TESTS} tests, {BLOCKS} blocks simulated")
        for workers in (2, 4, 16, 64, 128, 256, 512, 1000):
            found = simulated(workers, writer, size) / one
            apart = simulated(workers, writer, size, epochs=False) / one
            free = simulated(workers, 0.0, 0.0) / simulated(1, 0.0, 0.0)
            print(f"  {workers} workers: {found:.1f} times;", end=" ")
            print(f"without epochs {apart:.1f}, with a free writer {free:.1f}")
