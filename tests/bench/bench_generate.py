"""How fast programs grow and how diverse they are; printed, never asserted."""

from __future__ import annotations

import time

import pytest

from generators.counts import Counts, count
from generators.grow import grow
from generators.library import as_case

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("nodes", [5, 10, 20])
def test_programs_per_cpu_second(nodes: int, capsys: pytest.CaptureFixture[str]) -> None:
    grow(0, nodes)
    start = time.process_time()
    programs = [grow(seed, nodes) for seed in range(500)]
    cases = [as_case(program, seed) for seed, program in enumerate(programs)]
    seconds = time.process_time() - start
    counts = Counts()
    for program in programs:
        counts |= count(program.model, program.types)
    with capsys.disabled():
        print(f"\n{nodes} nodes: {len(cases) / seconds:.0f} cases per CPU-second; {counts.facts()}")
    assert counts.models == len(cases)
