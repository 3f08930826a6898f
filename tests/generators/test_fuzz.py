"""The inner loop, with judges that only look at the case."""

import threading
import time
from collections.abc import Iterator

import pytest

from corpus.case import Case
from corpus.errors import UserError
from generators import generate, make_case
from generators.feedback import BLOCK, CoverageSnapshot
from generators.fuzz import THOROUGH_EVERY, Judgement, Tester, fuzz, judge_cases
from generators.mixture import DrawnCase
from oracles.verdict import Outcome, Phase, Verdict


def cases(seeds: range) -> Iterator[DrawnCase]:
    for seed in seeds:
        yield DrawnCase(seed, Case("onnx", b"", {}, origin=f"seed:{seed}", settings=(("n", str(seed)),)), {})


def judging_with(judgement: Judgement) -> Tester:
    return lambda seeds, seconds, lesson: judge_cases(cases(seeds), judgement, seconds)


def verdict_of(case: Case, thorough: bool) -> Verdict:
    number = int(case.origin.removeprefix("seed:"))
    outcome = (Outcome.PASS, Outcome.CRASH, Outcome.INVALID, Outcome.UNSUPPORTED, Outcome.MISMATCH)[
        number % 5
    ]
    return Verdict(outcome, Phase.EXECUTE, f"{outcome} {thorough}")


def slowly(case: Case, thorough: bool) -> Verdict:
    """A judge that takes longer for every third case, so that workers overtake one another."""
    time.sleep(0.002 if int(case.origin.removeprefix("seed:")) % 3 == 0 else 0)
    return verdict_of(case, thorough)


def run(*judgements: Judgement, seed: int = 0, tests: int | None = None, seconds: float | None = None):
    return fuzz([judging_with(each) for each in judgements], seed=seed, tests=tests, seconds=seconds)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_number_of_workers_gives_the_same_results_in_the_same_order(workers):
    found = list(run(*[slowly] * workers, seed=10, tests=100))
    assert [tested.seed for tested in found] == list(range(10, 110))
    assert found == list(run(verdict_of, seed=10, tests=100))


def test_a_run_that_begins_within_a_block_ends_it_with_the_others():
    asked: list[range] = []

    def noting(seeds: range, seconds: float, lesson: CoverageSnapshot | None):
        asked.append(seeds)
        return list(judge_cases(cases(seeds), verdict_of, seconds))

    list(fuzz([noting], seed=BLOCK - 3, tests=BLOCK + 5))
    assert asked == [range(BLOCK - 3, BLOCK), range(BLOCK, 2 * BLOCK), range(2 * BLOCK, 2 * BLOCK + 2)]


def test_a_tester_is_used_by_one_thread_at_a_time():
    busy = threading.Lock()

    def exclusive(case: Case, thorough: bool) -> Verdict:
        assert busy.acquire(blocking=False)
        time.sleep(0.001)
        busy.release()
        return verdict_of(case, thorough)

    assert len(list(run(exclusive, verdict_of, tests=100))) == 100


def test_a_share_of_the_cases_is_judged_at_the_lower_levels_too():
    thorough = [tested.seed for tested in run(verdict_of, tests=40) if "True" in tested.verdict.title]
    assert thorough == list(range(0, 40, THOROUGH_EVERY))


@pytest.mark.parametrize("workers", [1, 3])
def test_it_ends_when_the_time_is_over_and_leaves_no_seed_out(workers):
    found = list(run(*[slowly] * workers, seconds=0.2))
    assert found
    assert [tested.seed for tested in found] == list(range(len(found)))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_judge_raises_is_raised(workers):
    def broken(case: Case, thorough: bool) -> Verdict:
        raise LookupError("planted")

    with pytest.raises(LookupError, match="planted"):
        list(run(*[broken] * workers, tests=8))


# Folders of programs


def test_each_program_is_a_case_folder(tmp_path):
    generated = generate(tmp_path, 5, 8, seed=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"seed-{seed}" for seed in range(3, 8)]
    assert Case.load(tmp_path / "seed-4").case_id == make_case(4, 8).case_id
    assert generated.facts()["models"] == 5
    assert generated.facts()["op_types"] <= 40


def test_what_was_written_before_is_left_as_it_is(tmp_path):
    whole = generate(tmp_path, 3, 5)
    before = (tmp_path / "seed-1" / "model.onnx").stat().st_mtime_ns
    again = generate(tmp_path, 4, 5)
    assert (tmp_path / "seed-1" / "model.onnx").stat().st_mtime_ns == before
    assert again.counts.models == whole.counts.models + 1


def test_a_folder_of_other_programs_is_refused(tmp_path):
    generate(tmp_path, 2, 5)
    with pytest.raises(UserError, match="holds another program"):
        generate(tmp_path, 2, 6)
