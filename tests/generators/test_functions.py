"""A program keeps its results when some of its nodes go behind a call."""

import numpy as np
import pytest

from corpus.onnx.check import checker_complaint
from corpus.target import Target
from generators.growth.grow import grow
from generators.language.values import RandomSource
from generators.strategies.functions import Form, wrap, wrap_nodes
from oracles.backends import find_backend
from oracles.relation.program import DTypeFamily
from oracles.sandbox.sandbox import Job

UNOPTIMISED = find_backend("ort").configs(Target("ort"))[:1]


@pytest.mark.parametrize("form", list(Form))
def test_every_form_is_valid_and_gives_equal_results(form, ort_sandbox):
    for seed in range(12):
        program = grow(seed, 6, frozenset(DTypeFamily))
        nodes = program.model.graph.node
        first = next(at for at, node in enumerate(nodes) if node.op_type != "Constant")
        wrapped = wrap_nodes(program.model, first + 1, len(nodes) - 1, form)
        assert checker_complaint(wrapped) is None
        jobs = (program.model, wrapped)
        runs = [ort_sandbox.run(Job(one.SerializeToString(), program.inputs, UNOPTIMISED))[0] for one in jobs]
        assert all(run.is_ok for run in runs), runs[1].message
        for name, value in runs[0].outputs.items():
            np.testing.assert_array_equal(value, runs[1].outputs[name])


def test_wrapping_comes_in_every_form_and_leaves_the_model_alone():
    forms = set()
    for seed in range(40):
        program = grow(seed, 6, frozenset(DTypeFamily))
        before = program.model.SerializeToString(deterministic=True)
        wrapped = wrap(program.model, RandomSource(str(seed)))
        assert program.model.SerializeToString(deterministic=True) == before
        forms.add(tuple(function.name for function in wrapped.functions))
    assert forms == {("closure",), ("inner", "outer"), ("closure", "wrapper")}
