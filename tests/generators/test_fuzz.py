"""The inner loop, with judges that only look at the case."""

from __future__ import annotations

import threading
import time

import pytest

from corpus.case import Case
from generators.fuzz import THOROUGH_EVERY, Tally, fuzz
from oracles.run import Phase
from oracles.verdict import Outcome, Verdict


def verdict_of(case: Case, thorough: bool) -> Verdict:
    number = int(case.origin.removeprefix("seed:"))
    outcome = (Outcome.PASS, Outcome.CRASH, Outcome.INVALID, Outcome.UNSUPPORTED, Outcome.MISMATCH)[
        number % 5
    ]
    return Verdict(outcome, Phase.EXECUTE, f"{outcome} {thorough}")


def slowly(case: Case, thorough: bool) -> Verdict:
    """A judge that takes longer for every third case, so that workers overtake one another."""
    time.sleep(0.01 if int(case.origin.removeprefix("seed:")) % 3 == 0 else 0)
    return verdict_of(case, thorough)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_number_of_workers_gives_the_same_results_in_the_same_order(workers: int) -> None:
    found = list(fuzz([slowly] * workers, nodes=3, seed=10, tests=30))
    assert [tested.seed for tested in found] == list(range(10, 40))
    alone = list(fuzz([verdict_of], nodes=3, seed=10, tests=30))
    assert [tested.verdict for tested in found] == [tested.verdict for tested in alone]
    assert [tested.case.case_id for tested in found] == [tested.case.case_id for tested in alone]


def test_a_judge_is_used_by_one_thread_at_a_time() -> None:
    busy = threading.Lock()

    def exclusive(case: Case, thorough: bool) -> Verdict:
        assert busy.acquire(blocking=False)
        time.sleep(0.001)
        busy.release()
        return verdict_of(case, thorough)

    assert len(list(fuzz([exclusive, verdict_of], nodes=2, tests=30))) == 30


def test_a_share_of_the_cases_is_judged_at_the_lower_levels_too() -> None:
    thorough = [
        tested.seed for tested in fuzz([verdict_of], nodes=2, tests=40) if "True" in tested.verdict.title
    ]
    assert thorough == list(range(0, 40, THOROUGH_EVERY))


@pytest.mark.parametrize("workers", [1, 3])
def test_it_ends_when_the_time_is_over(workers: int) -> None:
    start = time.monotonic()
    assert list(fuzz([slowly] * workers, nodes=2, seconds=0.2))
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_judge_raises_is_raised(workers: int) -> None:
    def broken(case: Case, thorough: bool) -> Verdict:
        raise LookupError("planted")

    with pytest.raises(LookupError, match="planted"):
        list(fuzz([broken] * workers, nodes=2, tests=8))


def test_the_tally_tells_failures_from_what_is_no_bug() -> None:
    tally = Tally()
    for tested in fuzz([verdict_of], nodes=2, tests=50):
        tally = tally.add(tested.verdict)
    assert tally == Tally(tests=50, valid=30, invalid=10, unsupported=10, failures=20)
