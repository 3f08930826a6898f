"""A first look at many programs together goes on after the process dies at one of them."""

import json

import numpy as np
import pytest

from corpus.target import Target
from oracles.judge import Judge
from oracles.sandbox.executor import Executor
from oracles.sandbox.sandbox import Job
from oracles.screening import REPORT, screen
from oracles.verdict import Config, Limits, Phase, Run, Status
from tests.helpers.failing import quotient

WAYS = (Config("plain", (("passes", ()),)), Config("default"))


class Noting(Executor):
    """An executor that notes how many programs each job has.

    With `silent` the process of a job that holds a program with that pass dies, at none of its programs or,
    as the memory that it leaves says, at `program`.
    """

    def __init__(self, silent: str = "", program: int = 0) -> None:
        super().__init__(Target("tvm"), format="tir", limits=Limits())
        self.sizes: list[int] = []
        self.silent, self.program = silent, program

    def run(self, job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        batch = json.loads(job.program)["batch"]
        self.sizes.append(len(batch))
        if not self.silent:
            return super().run(job, fresh=fresh)
        (config,) = job.configs
        if any(self.silent in each["passes"] for each in batch):
            return (Run(config, Status.CRASH, Phase.CODEGEN, program=self.program),)
        told = np.array([json.dumps([{}] * len(batch))], dtype=object)
        return (Run(config, Status.OK, Phase.EXECUTE, {REPORT: told}),)


@pytest.mark.parametrize(("at", "sizes"), [(5, [8, 5, 2, 7]), (0, [8, 7, 7]), (7, [8, 7, 7])])
def test_a_program_that_ends_the_process_is_known_at_once_and_the_rest_goes_on(at, sizes):
    cases = [quotient(1 + each) for each in range(8)]
    cases[at] = quotient(0)
    executor = Noting()
    try:
        looks = screen(executor, cases, WAYS)
    finally:
        executor.close()
    assert executor.sizes == sizes
    for number, look in enumerate(looks):
        assert (look is None) == (number == at)
        if look is not None:
            assert [int(run.outputs["C"][0]) for run in look.runs] == [7 // (1 + number)] * 2


def test_two_that_end_the_process_hide_nothing():
    cases = [quotient(each % 5) for each in range(12)]
    with Judge(Target("tvm"), format="tir") as judge:
        together = judge.look(cases)
        alone = [judge.look([case])[0] for case in cases]
    assert [look is None for look in together] == [look is None for look in alone]
    assert [number for number, look in enumerate(together) if look is None] == [0, 5, 10]


@pytest.mark.parametrize("program", [0, 9, 2**32 - 1])
def test_where_the_process_dies_at_none_of_them_halves_find_it(program):
    cases = [quotient(1).with_passes(("DiesInLlvm",) if number == 6 else ()) for number in range(8)]
    executor = Noting("DiesInLlvm", program)
    try:
        looks = screen(executor, cases, WAYS)
    finally:
        executor.close()
    assert [number for number, look in enumerate(looks) if look is None] == [6]
    assert executor.sizes == [8, 4, 4, 2, 2, 1, 1, 7]


def test_a_generated_loop_is_given_little_time_at_first_and_a_graph_all_of_it():
    """A hang that was given its twenty seconds, and these thrice to be sure, cost what 700 tests cost."""
    executor = Noting()
    whole = executor.cpu_limit
    for format, given in (("tir", whole / 4), ("onnx", whole)):
        with executor.briefly(format):
            assert executor.cpu_limit == given
        assert executor.cpu_limit == whole
