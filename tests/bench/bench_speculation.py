"""How many fewer seconds two workers take where a check takes 0.3 s; printed, never asserted.

Random models of forty operators, and what a failure needs of them: `crux reduce` with a command, where
the seconds include its start and the learning.
"""

import json
import random
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpus.case import Case
from corpus.formats.onnx import parse
from generators import make_case
from tests.helpers.commands import completed
from tests.reducer.driving import operators

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

CRUX = Path(sys.executable).with_name("crux")
SEEDS = range(6)
NODES = 40
Row = tuple[int, int, float, float]
"""Checks, calls by two workers, and the seconds of one and of two workers."""

CHECK = """
import os, sys, time
program = open(sys.argv[1], "rb").read()
os.write(os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT), b".")
time.sleep(0.3)
sys.exit(not all(name.encode() in program for name in sys.argv[3:]))
"""


def print_rows(rows: Sequence[Row]) -> None:
    print(f"{'seed':>6} {'checks':>6} {'calls by two':>12} {'one, s':>8} {'two, s':>8} {'ratio':>6}")
    checks, calls, one, two = (sum(row[at] for row in rows) for at in range(4))
    for name, row in [*zip(SEEDS, rows, strict=True), ("all", (checks, calls, one, two))]:
        print(f"{name:>6} {row[0]:>6} {row[1]:>12} {row[2]:>8.1f} {row[3]:>8.1f} {row[2] / row[3]:>6.2f}")


def test_two_workers_beside_one(tmp_path, capsys):
    (tmp_path / "check.py").write_text(CHECK)
    rows = [measure(tmp_path / str(seed), seed) for seed in SEEDS]
    with capsys.disabled():
        print()
        print_rows(rows)


def measure(folder: Path, seed: int) -> Row:
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
    done = completed([*line, "--check", check], check=True)
    return time.monotonic() - start, int(json.loads(done.stdout)["checks"]), counted.stat().st_size
