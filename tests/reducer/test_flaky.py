"""Failures that show in a share of their runs only, judged by real processes."""

import shlex
import sys
from pathlib import Path

import pytest

from corpus.case import Case
from reducer.api import Reduction, reduce_case
from reducer.engine.decider import MISSED, MISSED_AT_FIRST, MOST_AT_FIRST, MOST_RUNS, Flakiness, Refusals
from reducer.options import Options
from reducer.subject.onnx.subject import OnnxSubject
from tests.reducer.driving import case_of, model_of

CHECK = """
import hashlib, os, sys
model, folder, seed, percent = sys.argv[1:]
file = os.open(os.path.join(folder, "calls"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(file, b".")
drawn = hashlib.sha256(f"{seed}/{os.fstat(file).st_size}".encode()).digest()
program = open(model, "rb").read()
shows = b"Erf" in program and b"CumSum" in program and drawn[0] * 100 < int(percent) * 256
sys.exit(not shows)
"""
OPERATORS = ["Neg", "Abs", "Erf", "Neg", "Tanh", "Abs", "CUM", "Neg", "Exp", "Abs"]


def network() -> Case:
    nodes = [f"v{at + 1} = {operator} (v{at})" for at, operator in enumerate(OPERATORS)]
    text = f"g (float[2,3] v0) => (float[2,3] v10) <int64 axis = {{1}}> {{ {' '.join(nodes)} }}"
    return case_of(model_of(text.replace("CUM (v6)", "CumSum (v6, axis)")))


def reduce(folder: Path, seed: int, percent: int) -> Reduction:
    """What is left of ten nodes of which a bug needs two; the calls are counted from one."""
    folder.mkdir()
    script = folder / "check.py"
    script.write_text(CHECK)
    line = shlex.join([sys.executable, "-IS", str(script)])
    check = f"{line} {{}} {shlex.quote(str(folder))} {seed} {percent}"
    return reduce_case(network(), folder / "out", Options(check=check))


def is_right(reduction: Reduction) -> bool:
    return sorted(reduction.after.ops) == ["CumSum", "Erf"]


@pytest.mark.slow
def test_a_failure_that_shows_in_most_runs_is_measured_and_reduced(tmp_path):
    reduction = reduce(tmp_path / "run", 1, 60)
    assert is_right(reduction)
    assert reduction.is_minimal
    assert 0.2 < reduction.rate < 1
    assert reduction.runs_per_decision >= 4
    assert reduction.checks == (tmp_path / "run" / "calls").stat().st_size


def test_a_steady_failure_takes_one_run_a_decision(tmp_path):
    reduction = reduce(tmp_path / "run", 1, 100)
    assert is_right(reduction)
    assert (reduction.rate, reduction.runs_per_decision) == (1, 1)
    assert reduction.sweep_checks == reduction.checks - reduction.steps[-1].check
    assert 1 <= reduction.confirmations < reduction.sweep_checks


def test_what_was_refused_with_all_nodes_of_the_result_and_more_contradicts_it():
    more, result, other = (
        OnnxSubject(model_of(f"g (float x) => (float {made[-1]}) {{ {nodes} }}"), inputs={})
        for nodes, made in (("a = Abs (x) b = Erf (a)", "ab"), ("b = Erf (x)", "b"), ("c = Neg (x)", "c"))
    )
    refusals = Refusals()
    for subject in (other, result):
        refusals.add(subject)
    assert not refusals.contradict(result)
    refusals.add(more)
    assert refusals.contradict(result)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("percent", [60, 30])
def test_nineteen_of_twenty_reductions_end_right(tmp_path, percent, capsys):
    done = [reduce(tmp_path / str(seed), seed, percent) for seed in range(20)]
    with capsys.disabled():
        print(f"\n{percent} %: {sum(map(is_right, done))} of 20 right")
        print("checks", [each.checks for each in done])
        print("runs a decision", [each.runs_per_decision for each in done])
        print("rates", [each.rate for each in done])
    assert sum(map(is_right, done)) >= 19


@pytest.mark.parametrize(
    ("shown", "runs"), [(10, 10), (9, 10), (6, 10), (3, 10), (60, 100), (30, 100), (1, 10)]
)
def test_the_rarer_the_failure_the_more_runs_a_decision_takes(shown, runs):
    steadiness = Flakiness(shown, runs)
    assert (1 - shown / runs) ** steadiness.repeats <= MISSED or steadiness.repeats == MOST_RUNS
    missed_at_first = (1 - shown / runs) ** steadiness.repeats_at_first
    assert missed_at_first <= MISSED_AT_FIRST or steadiness.repeats_at_first == MOST_AT_FIRST
    assert steadiness.is_steady == (steadiness.repeats == 1) == (shown == runs)


def test_a_failure_that_was_seen_once_is_neither_denied_nor_searched(tmp_path):
    """Its first run shows it, then none for a long time."""
    script = tmp_path / "check.py"
    script.write_text(
        "import os, sys; file = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT);"
        "os.write(file, b'.'); sys.exit(1 < os.fstat(file).st_size)"
    )
    line = shlex.join([sys.executable, "-IS", str(script)])
    case = network()
    done = reduce_case(case, tmp_path / "out", Options(check=f"{line} {{}} {tmp_path / 'calls'}"))
    assert done.case.case_id == case.case_id
    assert 0 < done.rate < 0.1
    assert not done.is_minimal
    assert done.checks == (tmp_path / "calls").stat().st_size
    assert done.runs_per_decision == 1


def test_a_failure_is_too_rare_where_the_most_runs_would_miss_it():
    assert Flakiness(1, 41).is_too_rare
    assert not any(Flakiness(*seen).is_too_rare for seen in ((1, 11), (2, 41), (41, 41), (0, 0)))
