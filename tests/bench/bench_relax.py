"""Relax programs beside imported ones, beside a plain generator by type, and around patterns; never asserted.

`-k hold`: operators, dtypes, ranks, neighbours, passes that change something and in what way, of as many
programs each, with those made a CPU-second. `-k worth`: what parts of the synthesis around patterns are
worth.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from corpus.case import Case, Remark
from corpus.graphs.pattern import GraphPattern
from corpus.target import Target
from generators.changes.modes import Mode
from generators.fuzz import judge_cases, lesson_of
from generators.learning import Course
from generators.mixture import BLOCK, Plan, make_tests
from generators.relax import programs as making
from oracles.judge import Judge
from oracles.probes.firing import Firing
from oracles.run import Limits, Phase
from oracles.verdict import Outcome, Verdict
from tests.bench.plain_relax import programs as plain_programs
from triage.campaigns.testers import asker_of
from triage.cases.documented_tests import Reader
from triage.cases.patterns import Extraction

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3000)]

ROOT = Path(__file__).parents[2]
BENCH = Path(__file__).parent
NNSMITH = "CRUX_NNSMITH_PYTHON"
COUNT = int(os.environ.get("CRUX_BENCH_PROGRAMS", "64"))
NODES, SEED, STRIDE = 10, 8_300_000, 10
"""Every tenth program is looked at: the strategies of `mixed` come in blocks of seeds."""
LONG = 25
"""Bindings of a typed program that holds as many calls as an imported one of `NODES` nodes."""
PASS = Verdict(Outcome.PASS, Phase.COMPARE, "")


@dataclass
class Made:
    """Programs of one way of making them, and the CPU seconds that one took."""

    name: str
    cases: list[Case]
    each: float


def of_strategy(strategy: str, nodes: int = NODES) -> Made:
    plan = Plan(strategy, Mode.STRICT, nodes=nodes, sequences=False)
    before = time.process_time()
    drawn = list(islice(make_tests(plan, range(SEED, SEED + STRIDE * COUNT)), STRIDE * COUNT))
    spent = time.process_time() - before
    name = strategy if nodes == NODES else f"{strategy}, {nodes} bindings"
    return Made(name, [each.case for each in drawn][::STRIDE], spent / len(drawn))


def of_plain() -> Made:
    before = time.process_time()
    made = list(plain_programs(range(SEED, SEED + STRIDE * COUNT), NODES))
    spent = time.process_time() - before
    return Made(
        "plain, by the RFC",
        [Case("relax", each.to_bytes(), {}) for each in made[::STRIDE]],
        spent / len(made),
    )


def of_nnsmith(folder: Path) -> Made:
    done = subprocess.run(
        [os.environ[NNSMITH], str(BENCH / "nnsmith_models.py"), str(folder), str(NODES), str(COUNT), "60"],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    models = [(folder / f"{at}.onnx").read_bytes() for at in range(told["models"])]
    return Made("NNSmith", [Case("onnx", each, {}) for each in models], told["seconds"] / told["models"])


def looked(cases: list[Case]) -> list[dict[str, Any]]:
    """Ask what each holds and which passes change it, in processes of TVM's."""
    items = [{"format": each.format, "program": base64.b64encode(each.program).decode()} for each in cases]
    done = subprocess.run(
        [sys.executable, str(BENCH / "relax_looks.py")],
        input="".join(json.dumps(item) + "\n" for item in items).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def effects_of(answers: list[dict[str, Any]]) -> set[str]:
    return {json.dumps([name, *kinds]) for each in answers for name, kinds in each.get("pass", {}).items()}


def distinct(answers: list[dict[str, Any]], key: str) -> int:
    return len({one for each in answers for one in each.get(key, ())})


def line_of(made: Made) -> str:
    answers = looked(made.cases)
    good = [each for each in answers if "op" in each]
    failed = Counter(each["failed"] for each in answers if "failed" in each)
    effects, cpu = len(effects_of(good)), len(answers) * made.each + sum(each["cpu"] for each in answers)
    sizes = " ".join(f"{distinct(good, key):5}" for key in ("op", "dtype", "rank", "edge", "pass"))
    calls = sum(each["calls"] for each in good)
    return (
        f"{made.name:20} {len(good):3} of {len(answers):3} modules, {calls:5} calls, {sizes}, "
        f"{effects:5} (pass, kinds), {60 * effects / cpu:5.0f} a CPU-minute, {1 / made.each:6.0f} made a "
        f"CPU-second, {dict(failed)}"
    )


def test_what_programs_hold_and_which_passes_change_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("tvm_ffi", reason="tvm is not installed")
    ways: list[Callable[[], Made]] = [
        lambda strategy=strategy: of_strategy(strategy)  # type: ignore[misc]
        for strategy in ("random", "coverage", "mixed")
    ]
    if NNSMITH in os.environ:
        ways.append(lambda: of_nnsmith(tmp_path))
    ways.append(of_plain)
    ways += [
        lambda strategy=strategy: of_strategy(strategy)  # type: ignore[misc]
        for strategy in ("relax", "relax_patterns", "relax_high_order")
    ]
    ways.append(lambda: of_strategy("relax", LONG))
    with capsys.disabled():
        print(f"\n{COUNT} programs of {NODES} nodes each, TVM: operators, by dtype, by rank, edges, passes")
        for way in ways:
            print(line_of(way()), flush=True)


def taught_cases(plan: Plan, judge: Judge) -> Iterator[Case]:
    """The cases of a campaign that learns which passes fire together."""
    course, fired = Course(), asker_of(judge)
    for block in range(-(-COUNT // BLOCK)):
        lesson = course.lesson(block)
        assert lesson is not None
        drawn = list(make_tests(plan, range(SEED + block * BLOCK, SEED + (block + 1) * BLOCK), lesson))
        yield from (each.case for each in drawn)
        tests = judge_cases(drawn, lambda case, thorough: PASS, 600, fired=fired, known=lesson.pool.seen)
        course.add(block, lesson_of(list(tests)))


def worth(name: str, plan: Plan, judge: Judge) -> str:
    """Grow, run un-optimised, and ask which passes change what."""
    before = time.process_time()
    cases = list(taught_cases(plan, judge))[:COUNT]
    each = (time.process_time() - before) / len(cases)
    executor = judge.of_format("relax").executor
    ran = sum(executor.runs(case, executor.configs[:1])[0].is_ok for case in cases)
    answers = looked(cases)
    placed = fired = around = triggering = 0
    for case, answer in zip(cases, answers, strict=True):
        names = case.remarks(Remark.PATTERN)
        here = [one for one in names if one in answer.get("pass", {})]
        placed, fired = placed + len(names), fired + len(here)
        around, triggering = around + bool(names), triggering + bool(here)
    effects, cpu = len(effects_of(answers)), len(answers) * each + sum(one["cpu"] for one in answers)
    share = (
        f"{fired / placed:6.1%} of {placed:3}, {triggering / around:6.1%} of {around:3}" if placed else "-"
    )
    return (
        f"{name:26} {ran / len(cases):6.1%} run, {share:32} fire, {distinct(answers, 'pass'):3} passes, "
        f"{effects:4} (pass, kinds), {60 * effects / cpu:5.0f} a CPU-minute"
    )


def whole_tests(folder: Path) -> Path:
    """Our documented tests as they are, each the pattern of passes that fire on it."""
    target = Target("tvm")
    reader = Reader(target, Limits(), 1 << 30, True, lambda line: None)
    with Firing(target) as firing, Judge(target, format="relax") as judge:
        extraction = Extraction(firing, judge, most=2, is_whole=True)
        for _, documents in reader.documents(ROOT / "tests" / "documented"):
            for pattern in extraction.of(each for each in documents if each.case.format == "relax"):
                assert isinstance(pattern, GraphPattern)
                pattern.save(folder)
    return folder


def test_what_parts_of_the_synthesis_are_worth_on_tvm(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tvm_ffi", reason="tvm is not installed")
    plain = Plan("relax", Mode.STRICT, nodes=NODES, sequences=False)
    place = making.place_pattern
    with Judge(Target("tvm")) as judge, capsys.disabled():
        print(f"\n{COUNT} programs of {NODES} bindings each, TVM")
        for strategy in ("relax", "relax_patterns", "relax_high_order"):
            print(worth(strategy, replace(plain, strategy=strategy), judge), flush=True)
        monkeypatch.setattr(making, "place_pattern", lambda growth, fuel: place(growth, 0))
        print(worth("without bridges", replace(plain, strategy="relax_patterns"), judge), flush=True)
        monkeypatch.undo()
        folder = whole_tests(tmp_path)
        whole = replace(plain, strategy="relax_patterns", source=folder)
        print(worth("whole tests, no extraction", whole, judge), flush=True)
