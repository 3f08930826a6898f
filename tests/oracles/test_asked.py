"""The oracles that are asked for by name: further ways to run a case that passes otherwise."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from oracles.judge import Judge
from oracles.numerics.rewrites import REWRITES, insert_transposes
from oracles.optional import REPEATS, Asking, asked_oracles, find_asked, slower
from oracles.optional import timed as timed_ways
from oracles.probes.context import Context
from oracles.rules.failures import hang
from oracles.sandbox.executor import configs_of
from oracles.verdict import Config, Limits, Outcome, Phase, Run, Status
from tests.helpers.models import case_of as case

F = np.float32
ASKED = Target.parse("ort@oracles=metamorphic,determinism,devices,perf")


PLAIN = case(
    "g (float[2,3] x, int64[3] i) => (float[2,3] y, int64[3] j) <float[3] w = {1, 2, 0.1}>"
    " { a = Add(x, w) b = Exp(a) c = Transpose(b) d = Transpose(c) y = Mul(d, a) j = Mul(i, i) }",
    x=np.ones((2, 3), F) / F(3),
    i=np.arange(3),
)
CLIP_LOW = case(
    "g (double[3] x, double low) => (double[3] y) { r = Relu(x) y = Clip(r, low) }",
    x=np.array([-1.0, 2.0, 9.0]),
    low=np.array(0.5),
)
DIV_ONE = case(
    "g (int32[3] x, int32[3] z, int32 one) => (int32[3] y) { q = Div(one, x) y = Mul(q, z) }",
    x=np.array([2, 3, 4], np.int32),
    z=np.array([10, 20, 30], np.int32),
    one=np.array(1, np.int32),
)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(ASKED) as made:
        yield made


@pytest.mark.parametrize("name", REWRITES)
def test_a_rewrite_changes_the_program_and_no_bit_of_its_results(judge, name):
    expected = judge.runs(PLAIN, judge.configs[:1])[0].outputs
    found = REWRITES[name](onnx.load_model_from_string(PLAIN.program), PLAIN.inputs)
    assert found is not None
    model, inputs = found
    onnx.checker.check_model(model)
    assert model.SerializeToString() != PLAIN.program
    changed = Case("onnx", model.SerializeToString(), inputs)
    (run,) = judge.runs(changed, judge.configs[:1])
    assert run.is_ok, run.message
    for output, value in expected.items():
        np.testing.assert_array_equal(run.outputs[output], value)


def test_no_transposes_follow_a_type_that_transpose_does_not_take():
    text = "g (float[2,3] x) => (float8e5m2[2,3] y) { y = Cast<to = 19>(x) }"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 19]> {text}')
    assert insert_transposes(model, {}) is None


@pytest.mark.parametrize(
    ("hidden", "symptom"),
    [
        (CLIP_LOW, "relu_clip_fusion.cc FuseReluClip::Apply"),
        (DIV_ONE, "mismatch | compare | value | optimised | metamorphic"),
    ],
    ids=["exception", "wrong value"],
)
def test_a_bug_that_only_a_rewritten_program_shows_is_found_again(judge, hidden, symptom):
    with Judge(Target("ort")) as plain:
        assert plain.verdict(hidden).outcome is Outcome.PASS
    verdict = judge.verdict(hidden)
    assert symptom in str(verdict.symptom)
    assert "inputs as weights" in verdict.title
    assert judge.verdict(hidden, only=verdict.runs[-1].config).symptom == verdict.symptom


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("reference@oracles=round-trip,backends", marks=pytest.mark.slow),
        "torch@oracles=round-trip",
    ],
)
def test_what_is_written_and_read_back_computes_the_same(text):
    with Judge(Target.parse(text)) as judge:
        assert judge.verdict(PLAIN).outcome is Outcome.PASS
        oracle = asked_oracles()["round-trip"]
        forms = [way.config.get("via") for way in oracle.ways(PLAIN, Asking(judge.target, judge.configs))]
        assert forms == list(judge.backend.written_as)


def test_an_unknown_oracle_is_named_with_the_known_ones():
    with pytest.raises(UserError, match=r"'nonsense'.*metamorphic"):
        find_asked("perf,nonsense")


def timed(label: str, seconds: float) -> Run:
    return Run(Config(label), Status.OK, Phase.EXECUTE, execute_seconds=seconds)


@pytest.mark.parametrize(
    ("times", "is_slower"),
    [
        ([0.1, 0.5, 0.1, 0.4, 0.1, 0.45], True),
        ([0.1, 0.5, 0.1, 0.4, 0.1, 0.15], False),
        ([0.001, 0.01, 0.001, 0.01, 0.001, 0.01], False),
    ],
    ids=["every time", "once quick", "too short to tell"],
)
def test_slower_means_clearly_and_every_time(times, is_slower):
    runs = tuple(timed("none" if index % 2 == 0 else "all", each) for index, each in enumerate(times))
    verdict = slower(PLAIN, (timed("none", 0.1), *runs), None)
    assert (verdict is not None) == is_slower
    assert verdict is None or verdict.outcome is Outcome.PERF


@pytest.mark.parametrize(
    ("text", "format"),
    [("ort", "onnx"), ("tvm", "onnx"), ("tvm", "relax"), ("tvm", "tir"), ("inductor", "onnx")],
)
def test_a_side_that_is_made_slow_is_seen_on_every_target(text, format):
    target = Target.parse(text)
    configs = configs_of(target, format)
    ways = [way.config for way in timed_ways(PLAIN, Asking(target, configs))]
    assert len(ways) == 2 * REPEATS
    assert all(config.backend == "" for config in ways)
    slow = [replace(timed(each.label, 0.5 if at % 2 else 0.1), config=each) for at, each in enumerate(ways)]
    verdict = slower(PLAIN, (timed("none", 0.1), *slow), None)
    assert verdict.outcome is Outcome.PERF
    assert ways[0].settings != ways[1].settings


# A compiler that takes long is no hang: it gets more time, and what it gives is compared as usual


@pytest.mark.parametrize(
    ("plain", "took", "outcome"),
    [(2.0, 39.0, Outcome.UNDECIDED), (2.0, 61.0, Outcome.TIMEOUT), (2.0, 0.1, Outcome.TIMEOUT)],
)
def test_a_hang_takes_twenty_times_the_plain_run_or_sleeps(plain, took, outcome):
    context = SimpleNamespace(
        steps=1, names=frozenset(), executor=SimpleNamespace(limits=Limits(cpu_seconds=20))
    )
    runs = (
        Run(Config("none"), Status.OK, Phase.EXECUTE, cpu_seconds=plain),
        Run(Config("all"), Status.TIMEOUT, Phase.OPTIMISE, cpu_seconds=took),
    )
    verdict = hang(Case("onnx", b"", {}), runs, cast(Context, context))
    assert verdict.outcome is outcome
