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
CHECK = """
import sys, time
program = open(sys.argv[1], "rb").read()
time.sleep(0.3)
sys.exit(not all(name.encode() in program for name in sys.argv[2:]))
"""


def test_two_workers_beside_one(tmp_path, say):
    (tmp_path / "check.py").write_text(CHECK)
    spent = {1: 0.0, 2: 0.0}
    for seed in SEEDS:
        case = make_case(seed, NODES)
        case.save(tmp_path / str(seed) / "case")
        found = {jobs: reduce(tmp_path / str(seed), jobs, needed(case, seed)) for jobs in spent}
        assert found[1][1] == found[2][1]
        spent = {jobs: spent[jobs] + seconds for jobs, (seconds, _) in found.items()}
        say(f"seed {seed}: {found[1][1]} checks, {found[1][0]:.1f} s, by two {found[2][0]:.1f} s")
    say(f"two workers are {spent[1] / spent[2]:.2f} times one")


def needed(case: Case, seed: int) -> Sequence[str]:
    """One to three of the operators whose name is in no other's."""
    names = set(operators(parse(case.program)))
    distinct = sorted(name for name in names if sum(name in other for other in names) == 1)
    return random.Random(seed).sample(distinct, 1 + seed % 3)


def reduce(folder: Path, jobs: int, wanted: Sequence[str]) -> tuple[float, int]:
    """Seconds and checks."""
    script = shlex.join([sys.executable, "-IS", str(folder.parent / "check.py")])
    line = [CRUX, "reduce", folder / "case", "-o", folder / f"out{jobs}", "--json", "-j", str(jobs)]
    start = time.monotonic()
    done = completed([*line, "--check", f"{script} {{}} {shlex.join(wanted)}"], check=True)
    return time.monotonic() - start, int(json.loads(done.stdout)["checks"])
