"""How many fewer seconds two workers take where a check takes 0.3 s; printed, never asserted.

Random models of forty operators, and what a failure needs of them; each is reduced by a real command, once
with one worker and once with two. The seconds include crux's own start and learning.
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpus.case import Case
from corpus.formats.onnx import parse
from generators import make_case
from tests.reducer.driving import operators

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

CRUX = Path(sys.executable).with_name("crux")
SEEDS = range(8)
NODES = 40
CHECK = """
import os, sys, time
program = open(sys.argv[1], "rb").read()
os.write(os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT), b".")
time.sleep(0.3)
sys.exit(not all(name.encode() in program for name in sys.argv[3:]))
"""


def test_two_workers_beside_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "check.py").write_text(CHECK)
    rows = [measure(tmp_path / str(seed), seed) for seed in SEEDS]
    with capsys.disabled():
        print(f"\n{'seed':>6} {'checks':>6} {'calls by two':>12} {'one, s':>8} {'two, s':>8} {'ratio':>6}")
        for seed, (checks, calls, one, two) in zip(SEEDS, rows, strict=True):
            print(f"{seed:>6} {checks:>6} {calls:>12} {one:>8.1f} {two:>8.1f} {one / two:>6.2f}")
        one, two = (sum(row[at] for row in rows) for at in (2, 3))
        print(f"   all {sum(row[0] for row in rows):>6} {sum(row[1] for row in rows):>12} ", end="")
        print(f"{one:>8.1f} {two:>8.1f} {one / two:>6.2f}")


def measure(folder: Path, seed: int) -> tuple[int, int, float, float]:
    """Checks, calls by two workers, and the seconds of one and of two workers."""
    case = make_case(seed, NODES)
    case.save(folder / "case")
    wanted = needed(case, seed)
    one, checks, _ = reduce(folder, 1, wanted)
    two, same, calls = reduce(folder, 2, wanted)
    assert checks == same
    return checks, calls, one, two


def needed(case: Case, seed: int) -> Sequence[str]:
    """One to three of the operators whose name is in no other's."""
    names = set(operators(parse(case.program)))
    distinct = sorted(name for name in names if sum(name in other for other in names) == 1)
    return random.Random(seed).sample(distinct, 1 + seed % 3)


def reduce(folder: Path, jobs: int, wanted: Sequence[str]) -> tuple[float, int, int]:
    counted = folder / f"calls{jobs}"
    script = shlex.join([sys.executable, "-IS", str(folder.parent / "check.py")])
    check = f"{script} {{}} {shlex.quote(str(counted))} {shlex.join(wanted)}"
    line = [CRUX, "reduce", folder / "case", "-o", folder / f"out{jobs}", "--json", "-j", str(jobs)]
    start = time.monotonic()
    done = subprocess.run([*line, "--check", check], capture_output=True, text=True, check=True)
    return time.monotonic() - start, int(json.loads(done.stdout)["checks"]), counted.stat().st_size
