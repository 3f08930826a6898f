"""Searches over sets: what they return, how small it is, how often they ask."""

import math
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.case import Case
from reducer.api import Reduction, reduce_case
from reducer.course import Options
from reducer.engine.decider import Refusals
from reducer.search import Items, SetSearch, counter_dd, drop_one_at_a_time, find_essentials
from reducer.subject.onnx.subject import OnnxSubject
from tests.reducer.driving import case_of, ended, model_of

IsInteresting = Callable[[Items], bool]
SEARCHES = {
    "find_essentials": find_essentials,
    "find_essentials, patient": partial(find_essentials, patience=10**6),
    "find_essentials, neighbours first": partial(
        find_essentials, near=[lambda found: frozenset(at + step for at in found for step in (-2, -1, 1, 2))]
    ),
    "find_essentials, weighted": partial(find_essentials, weigh=lambda item: item % 7 + 0.5),
    "counter_dd": counter_dd,
    "drop_one_at_a_time": drop_one_at_a_time,
}
BISECTIONS = {name: search for name, search in SEARCHES.items() if name.startswith("find_essentials")}


@dataclass
class Found:
    items: Items
    asked: list[Items] = field(default_factory=list)
    accepted: list[Items] = field(default_factory=list)


def drive(search: SetSearch, start: Items, is_interesting: IsInteresting) -> Found:
    found = Found(start)

    def answer(keep: Items) -> bool:
        found.asked.append(keep)
        if is_interesting(keep):
            found.accepted.append(keep)
            return True
        return False

    found.items = ended(search, answer)
    return found


@st.composite
def needles(draw: st.DrawFn, most: int = 6) -> tuple[int, Items]:
    """A number of items, and which of them are essential."""
    count = draw(st.integers(1, 200))
    return count, draw(st.frozensets(st.integers(0, count - 1), min_size=1, max_size=most))


@given(needles())
def test_bisection_finds_exactly_the_essentials_within_the_bound(case):
    count, essentials = case
    bound = len(essentials) * (math.ceil(math.log2(count)) + 2) + 2
    patient, impatient = (
        drive(find_essentials(range(count), patience=patience), frozenset(range(count)), essentials.issubset)
        for patience in (count, 1)
    )
    assert patient.items == essentials <= impatient.items
    assert max(len(patient.asked), len(impatient.asked)) <= bound


@given(needles(), st.data())
def test_neither_weights_nor_neighbours_tried_first_lose_an_essential(case, data):
    count, essentials = case
    around = data.draw(st.frozensets(st.integers(0, count - 1)))
    heavy = data.draw(st.integers(0, count - 1))
    search = find_essentials(
        range(count),
        [lambda found: around - found],
        weigh=lambda item: 1000.0 if item == heavy else 0.001,
        patience=count,
    )
    assert drive(search, frozenset(range(count)), essentials.issubset).items == essentials


@st.composite
def alternatives(draw: st.DrawFn) -> tuple[int, tuple[Items, ...]]:
    """A monotone predicate with several minimal sets: interesting where any of them is contained."""
    count = draw(st.integers(1, 40))
    subsets = st.frozensets(st.integers(0, count - 1), min_size=1, max_size=6)
    return count, tuple(draw(st.lists(subsets, min_size=1, max_size=4)))


@pytest.mark.parametrize("search", [counter_dd, drop_one_at_a_time])
@given(case=alternatives())
def test_from_what_delta_debugging_returns_no_single_item_can_go(search, case):
    count, minimal_sets = case

    def is_interesting(keep: Items) -> bool:
        return any(wanted <= keep for wanted in minimal_sets)

    items = drive(search(range(count)), frozenset(range(count)), is_interesting).items
    assert is_interesting(items)
    assert not any(is_interesting(items - {item}) for item in items)


@pytest.mark.parametrize("name", BISECTIONS)
@given(case=alternatives())
def test_a_bisection_ends_with_one_of_several_minimal_sets_or_gives_up_above_one(name, case):
    count, minimal_sets = case
    found = drive(
        BISECTIONS[name](range(count)),
        frozenset(range(count)),
        lambda keep: any(wanted <= keep for wanted in minimal_sets),
    )
    assert any(wanted <= found.items for wanted in minimal_sets)


@pytest.mark.parametrize("name", SEARCHES)
@settings(max_examples=60)
@given(count=st.integers(1, 60), seed=st.randoms(use_true_random=False))
def test_under_any_predicate_what_is_returned_was_accepted_and_nothing_grows(name, count, seed):
    answers: dict[Items, bool] = {}
    start = frozenset(range(count))

    def is_interesting(keep: Items) -> bool:
        return answers.setdefault(keep, seed.random() < 0.4)  # type: ignore[attr-defined]

    found = drive(SEARCHES[name](range(count)), start, is_interesting)
    assert found.items == (found.accepted[-1] if found.accepted else start)
    assert all(keep <= start for keep in found.asked)
    assert all(
        later < earlier for earlier, later in zip([start, *found.accepted], found.accepted, strict=False)
    )


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_asks_the_same_questions_again(name):
    essentials = frozenset({3, 17, 30})
    first, second = (
        drive(SEARCHES[name](range(40)), frozenset(range(40)), essentials.issubset).asked for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("name", SEARCHES)
def test_no_search_proposes_to_keep_nothing(name):
    found = drive(SEARCHES[name](range(9)), frozenset(range(9)), lambda keep: True)
    assert frozenset() not in found.asked
    assert len(found.items) == 1


# Failures that show in a share of their runs only, judged by real processes

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
def test_nineteen_of_twenty_reductions_end_right(tmp_path, percent, say):
    done = [reduce(tmp_path / str(seed), seed, percent) for seed in range(20)]
    say(f"\n{percent} %: {sum(map(is_right, done))} of 20 right")
    say("checks", [each.checks for each in done])
    say("runs a decision", [each.runs_per_decision for each in done])
    say("rates", [each.rate for each in done])
    assert sum(map(is_right, done)) >= 19


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
