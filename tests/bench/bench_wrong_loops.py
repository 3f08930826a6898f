"""How many fresh TIR programs it takes until one notices a wrong rewrite, of each kind of `wrong_loops`.

No compiler runs: a program notices one if the interpreter gives another value for what the program defines.
`CRUX_BENCH_SEEDS` (3) runs from seeds of their own, of at most `CRUX_BENCH_PROGRAMS` (900) programs each:
what TVM tests in about 120 CPU seconds.
"""

import os
import statistics
import time

import pytest

from generators.tir.programs import make_program
from tests.helpers.wrong_loops import WRONG, noticed

pytestmark = pytest.mark.bench
SEEDS = int(os.environ.get("CRUX_BENCH_SEEDS", "3"))
PROGRAMS = int(os.environ.get("CRUX_BENCH_PROGRAMS", "900"))


def test_programs_until_each_wrong_rewrite_is_noticed(say):
    met: dict[str, list[int]] = {name: [] for name in WRONG}
    made, spent = 0, 0.0
    for run in range(SEEDS):
        left = dict.fromkeys(WRONG)
        for count in range(PROGRAMS):
            start = time.process_time()
            program = make_program(run * 1_000_000 + count, 8)
            spent, made = spent + time.process_time() - start, made + 1
            for name in noticed(program, left):
                met[name].append(count + 1)
                del left[name]
            if not left:
                break
    for name, counts in met.items():
        middle = statistics.median(counts) if counts else "-"
        say(f"{name:34} {len(counts)} of {SEEDS}   {middle} programs")
    say(f"{made / spent:.1f} programs a CPU-second")
    assert made
