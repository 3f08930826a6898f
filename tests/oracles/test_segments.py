"""What a segment's own rounding explains: a step at its edge, but no other scale and no shorter float."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from corpus.target import Target
from oracles.backends.reference import run as evaluate
from oracles.judge import Judge
from oracles.rules.wrong_nodes import segments
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Run, Verdict
from tests.helpers.models import case_of

QUANTISED = """g (float[4,8] x) => (uint8[4,8] out) <float s = {0.02}, uint8 z = {128}, float t = {0.05}> {
    q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) e = Tanh(d) r = MatMul(d, w)
    f = Add(r, e) out = QuantizeLinear(f, t, z)
}"""
WEIGHTS = "float[8,8] w = {" + ",".join(f"{np.sin(n):.4f}" for n in range(64)) + "}, "


def judged(judge: Judge, tensor: str, change: Callable[[Any], Any]) -> Verdict | None:
    """The verdict of the rule where an optimised run gives another value of one tensor."""
    text = QUANTISED.replace("<", f"<{WEIGHTS}", 1)
    values = np.random.default_rng(3).uniform(-2, 2, (4, 8)).astype(np.float32)
    case = case_of(text, target=Target("ort"), opset=13, x=values)
    context = judge.open(case)
    plain = context.rerun(context.job)[0]

    def changed(job: Job, config: Config) -> Run:
        run = judge.executor.run(replace(job, configs=(config,)))[0]
        return replace(run, outputs={**run.outputs, tensor: change(run.outputs[tensor])})

    context.run_as = changed  # type: ignore[method-assign]
    wrong = replace(plain, config=judge.configs[-1], outputs={"out": np.asarray(plain.outputs["out"]) + 1})
    return segments(case, (plain, wrong), context)


@pytest.mark.parametrize(
    ("tensor", "change", "is_wrong"),
    [
        ("out", lambda value: value, False),
        ("out", lambda value: value + (np.arange(32).reshape(4, 8) % 2 == 0), True),
        ("e", lambda value: value * np.float32(1 + 1e-3), True),
        ("e", lambda value: value.astype(np.float16).astype(np.float32), True),
        ("e", lambda value: value * np.float32(1 + 1e-7), False),
    ],
)
def test_only_the_rounding_of_its_own_nodes_explains_a_value(
    judge: Judge, tensor: str, change: Callable[[Any], Any], is_wrong: bool
) -> None:
    found = judged(judge, tensor, change)
    assert (found is not None) == is_wrong
    assert found is None or (found.wrong is not None and found.wrong.first == tensor)


def test_the_reference_dequantises_below_opset_19() -> None:
    text = (
        "g (uint8[3] x) => (double[3] y) <double s = {0.5}, uint8 z = {1}> { y = DequantizeLinear(x, s, z) }"
    )
    case = case_of(text, opset=13, x=np.array([0, 1, 5], np.uint8))
    found = evaluate(case.program, dict(case.inputs), {}, None, lambda phase: None)
    assert found["y"].tolist() == [-0.5, 0.0, 2.0]
