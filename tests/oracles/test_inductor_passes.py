"""What of inductor a failure takes: by torch's own hooks, told by subsystem and application."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from corpus.target import Target
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.verdict import Config, Outcome
from reducer.pass_sets import find_pass_set
from tests.helpers.models import case_of as on_any_target

INDUCTOR = Target("inductor")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    pytest.importorskip("torch", reason="torch is not installed")
    with Judge(INDUCTOR, lower_levels=False) as found:
        yield found


case_of = partial(on_any_target, target=INDUCTOR)


@pytest.mark.slow
def test_the_lowering_that_a_failure_takes_is_named_and_the_next_case_passes(judge):
    graph = "g (int32[2] a, int32[2] b) => (int32[2] y) { s = Neg(a) y = Div(s, b) }"
    case = case_of(graph, a=np.array([6, 7], np.int32), b=np.array([0, 2], np.int32))
    verdict = judge.verdict(case)
    if not verdict.is_bug:
        pytest.skip("the installed torch does not show the bug")
    found = find_pass_set(judge, case, verdict)
    assert found is not None
    assert (found.level, found.minimal, found.unique) == ("inductor", ("lowerings.div",), True)
    assert {"joint_graph_passes.remove_noop_ops", "lowerings.neg"} <= set(found.fired)
    assert found.checks <= 12
    sound = case_of("g (float[2] x) => (float[2] y) { y = Exp(x) }", x=np.ones(2, np.float32))
    assert judge.verdict(sound).outcome is Outcome.PASS


def test_what_does_less_comes_first():
    backend = find_backend("inductor")
    assert backend.passes is not None
    stages = backend.passes.stages(Config("inductor", (("backend", "inductor"),)))
    assert [stage.label for stage in stages] == ["aot_eager", "aot_eager_decomp_partition"]
    assert backend.passes.stages(stages[0]) == ()
