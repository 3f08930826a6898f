"""Measurements of programs of loops: their rate, how many are sound, and what each part of the loop is worth.

`CRUX_BENCH_SECONDS` (12) are CPU seconds a variant and a seed, `CRUX_BENCH_SEEDS` (1) how many seeds from
`CRUX_BENCH_FIRST` (1) on, `CRUX_BENCH_VARIANTS` which variants (by how their names begin, with commas).
`CRUX_BENCH_FIGURE` is a file for the picture (SVG): the medians over CPU time, with the least and the most of
the seeds behind them. `CRUX_BENCH_KEPT` is a folder that keeps each measurement: table and picture then show
all that are there, so that seeds can be measured in several goes. Variants take turns within a seed: what
else the machine does slows all of them alike.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from corpus.target import Target
from corpus.tir.scopes import problems
from generators.feedback import CoverageSnapshot, FeedbackSchedule
from generators.fuzz import judge_cases, lesson_of
from generators.language.values import RandomSource
from generators.mixture import BLOCK, DrawnCase
from generators.tir.breeding import ALL, Rules, breed
from generators.tir.mutators import all_mutators
from generators.tir.programs import make_program, mutated
from oracles.judge import Judge
from oracles.tir.interpreter import interpret
from tests.bench.curves import picture
from triage.campaigns.testers import judgement, looking

pytestmark = pytest.mark.bench
SECONDS = float(os.environ.get("CRUX_BENCH_SECONDS", "12"))
SEEDS = int(os.environ.get("CRUX_BENCH_SEEDS", "1"))
FIRST = int(os.environ.get("CRUX_BENCH_FIRST", "1"))
VARIANTS = {
    "the paper's loop": ALL,
    "the loop unguided": Rules(guided=False),
    "no coverage": Rules(keeps=False),
    "general mutators only": Rules(domain=False),
    "programs only": Rules(passes=False),
    "passes only": Rules(programs=False),
    "both at random": Rules(evolves=False),
    **{f"N_max {number}": Rules(n_max=number) for number in (1, 3, 9)},
}


def drawn(block: range, lesson: CoverageSnapshot, rules: Rules) -> Iterator[DrawnCase]:
    for seed in block:
        made = breed(seed, 8, lesson.pool, rules)
        yield DrawnCase(seed, made.as_case(seed), {}, bred=made.bred)


def campaign(judge: Judge, first: int, rules: Rules) -> tuple[int, list[tuple[float, int]]]:
    """How many tests there were, and after how many CPU seconds how many pieces they had met."""
    executor = judge.of_format("tir").executor
    course, tests, block, seen = FeedbackSchedule(), 0, 0, set[str]()
    start, near = executor.cpu_seconds(), time.process_time()
    spent, curve = 0.0, [(0.0, 0)]
    while spent < SECONDS:
        lesson = course.lesson(block)
        assert lesson is not None
        seeds = range(first + block * BLOCK, first + (block + 1) * BLOCK)
        found = list(
            judge_cases(
                drawn(seeds, lesson, rules),
                judgement(judge),
                600,
                looking=looking(judge, ("tir",)),
                known=lesson.pool.seen,
            )
        )
        course.add(block, lesson_of(found))
        seen.update(piece for each in found if each.trial for piece in each.trial.news)
        tests, block = tests + len(found), block + 1
        spent = executor.cpu_seconds() - start + time.process_time() - near
        curve.append((spent, len(seen)))
    return tests, curve


Measured = dict[str, dict[int, tuple[int, list[tuple[float, int]]]]]
"""By variant and seed how many tests there were, and the pieces over CPU seconds."""


@pytest.mark.timeout(0)
def test_what_each_part_is_worth(capsys):
    wanted = tuple(os.environ.get("CRUX_BENCH_VARIANTS", "").split(","))
    names = [each for each in VARIANTS if each.startswith(wanted)]
    kept = os.environ.get("CRUX_BENCH_KEPT", "")
    found: Measured = {name: {} for name in names}
    with Judge(Target("tvm")) as judge:
        list(
            judge_cases(
                drawn(range(2), CoverageSnapshot(), ALL),
                judgement(judge),
                60,
                looking=looking(judge, ("tir",)),
            )
        )
        for seed in range(FIRST, FIRST + SEEDS):
            for name in names:
                found[name][seed] = campaign(judge, 1_000_000 * seed, VARIANTS[name])
                if kept:
                    told = json.dumps([name, seed, *found[name][seed]])
                    Path(kept, f"{names.index(name)}-{seed}.json").write_text(told)
    for file in sorted(Path(kept).glob("*.json")) if kept else ():
        name, seed, tests, curve = json.loads(file.read_text())
        found.setdefault(name, {})[seed] = (tests, curve)
    with capsys.disabled():
        show(found)


def show(found: Measured) -> None:
    """Print the table, and draw the picture if one is wanted."""
    marks = np.linspace(SECONDS / 40, SECONDS, 40)
    bands = {}
    print("\n| variant | tests per CPU second | pieces: median (least to most) |\n|---|---|---|")
    for name, seeds in found.items():
        rate = statistics.mean(tests / curve[-1][0] for tests, curve in seeds.values())
        bands[name] = np.array([np.interp(marks, *zip(*curve, strict=True)) for _, curve in seeds.values()])
        last = bands[name][:, -1]
        told = f"{np.median(last):.0f} ({last.min():.0f} to {last.max():.0f})"
        print(f"| {name} | {rate:.1f} | {told} |", flush=True)
    place = os.environ.get("CRUX_BENCH_FIGURE", "")
    if place:
        shown = {name: band for name, band in bands.items() if not name.startswith("N_max")}
        most = max(float(band.max()) for band in shown.values())
        title = "Pairs of a pass that changed a function and a kind of node, before or after"
        Path(place).write_text(picture(marks, shown, title, 0.0, most))


def test_mutants_are_sound(capsys):
    tried = formed = defined = raw = raw_formed = 0
    for seed in range(60):
        base = make_program(seed, 8)
        for mutator in all_mutators():
            first = mutator.mutate(RandomSource(f"bench/{seed}/{mutator.name}"), base.module)
            raw, raw_formed = (
                raw + (first is not None),
                raw_formed + (first is not None and not problems(first)),
            )
            found = mutated(RandomSource(f"bench/{seed}/{mutator.name}"), base.module, seed, (mutator,))
            if found != base.module:
                tried += 1
                formed += not problems(found)
                defined += interpret(found, dict(make_program(seed, 8).inputs), trials=0).is_defined
    with capsys.disabled():
        print(f"\n| mutants {tried} | well-formed {formed / tried:.1%} | defined {defined / tried:.1%} |")
        print(f"before anything is checked: {raw_formed / raw:.1%} of {raw} well-formed")


PAIRS = """
import json, sys, time
import numpy, tvm
from oracles.worker.tvm.tir.run import Cover
from oracles.worker.tvm.watch import instrumented
from generators.mixture import Plan, make_cases
from oracles.backends.tvm import _run
found, start, seed, tests = set(), time.process_time(), 0, 0
while time.process_time() - start < float(sys.argv[1]):
    for case in make_cases(Plan(strategy=sys.argv[2], nodes=8, passes_of="tvm"), range(seed, seed + 16)):
        pieces = set()
        settings = {"format": case.format, "passes": case.passes, "opt-level": 0}
        try:
            with instrumented(lambda: Cover(pieces)):
                _run(case.program, dict(case.inputs), settings, None, lambda phase: None)
        except Exception:
            pass
        tests += 1
        found |= {piece.replace("<", ">") for piece in pieces}
        if time.process_time() - start >= float(sys.argv[1]):
            break
    seed += 16
print(json.dumps([tests, len(found)]))
"""
"""Counts (pass, kind of node) pairs of programs that run one after the other, without isolation."""


@pytest.mark.timeout(0)
def test_pairs_beside_onnx_programs(capsys):
    told = {}
    for strategy in ("random", "tir"):
        command = [sys.executable, "-c", PAIRS, str(SECONDS), strategy]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        told[strategy] = json.loads(output.splitlines()[-1])
    with capsys.disabled():
        ratio = told["tir"][1] / told["random"][1]
        print(f"\n| ONNX {told['random'][1]} pairs in {told['random'][0]} tests | loops {told['tir'][1]} in")
        print(f" {told['tir'][0]} | {ratio:.1f} times as many in {SECONDS:.0f} CPU seconds |")
