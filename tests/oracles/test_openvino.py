"""OpenVINO as a target: models on the CPU, held against un-optimised onnxruntime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx
import pytest

from corpus.errors import UserError
from corpus.target import Target
from generators.legality import Legality
from generators.mixture import Plan, make_cases
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.numerics.mismatch_kind import exceeds
from oracles.operators import all_operators
from oracles.sandbox.executor import configs_of
from oracles.verdict import Config, Outcome, Phase, Run, Status
from tests.helpers.commands import needs
from tests.helpers.models import case_of
from triage.causes.consequences import find_root

OPENVINO = Target("openvino")
F4 = np.ones(2, "float32")
EVERY = frozenset(each.name for each in all_operators())
backend = find_backend("openvino")
case = partial(case_of, opset=17, ir=8, target=OPENVINO)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(OPENVINO) as found:
        yield found


def test_it_computes_in_float32_unless_a_hint_says_otherwise():
    labels = [
        [each.label for each in configs_of(Target.parse(text), "onnx")]
        for text in ("openvino", "openvino@hint=default")
    ]
    assert [each[-1] for each in labels] == ["compiled", "default"]
    with pytest.raises(UserError, match="@hint= is one of f32, default"):
        configs_of(Target.parse("openvino@hint=f64"), "onnx")
    with pytest.raises(UserError, match="on the CPU only"):
        configs_of(Target.parse("openvino:cuda"), "onnx")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("-- No conversion rule found for operations: Det-21", "unsupported"),
        ("TopK node with name 'y0' K (0) must be greater or equal to 1.", "unsupported"),
        ("CALLBACK HAS THROWN: Unknown activation function: softsign", "unsupported"),
        ("Check 'trip_count != 0' failed at src/core/src/op/loop.cpp:88:", ""),
    ],
)
def test_it_says_itself_what_it_does_not_have(message, expected):
    run = Run(Config("compiled"), Status.EXCEPTION, Phase.IMPORT, error="RuntimeError", message=message)
    assert backend.classify(run) == expected
    assert backend.tags(run) == (("importer-limit",) if expected else ())


def test_what_the_shorter_type_cannot_hold_is_left_open_but_no_bound_of_the_own_type():
    assert exceeds(np.int64([1, 1 << 31]), "int32")
    assert exceeds(np.int64([1, np.iinfo("int64").max]), "int32")
    assert not exceeds(np.int64([1, np.iinfo("int64").max]), "int32", is_position=True)
    assert not exceeds(np.uint16([65535]), "int32")


def test_campaigns_draw_nothing_of_dtypes_that_it_lacks():
    plan = Plan("random", legality=Legality(EVERY, lacks=backend.lacks))
    for each in make_cases(plan, range(20)):
        held = {int(each.elem_type) for each in _tensors(each.parsed.graph)}
        assert onnx.TensorProto.DOUBLE not in held


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TypeProto.Tensor]:
    for value in (*graph.input, *graph.output):
        yield value.type.tensor_type


@needs("openvino")
def test_a_model_gives_what_onnxruntime_gives(judge):
    text = "g (float[2,3] x, int64[3] i) => (float[3,2] y, int64[3] j) { y = Transpose(x) j = Neg(i) }"
    verdict = judge.verdict(case(text, x=np.ones((2, 3), "float32"), i=np.int64([1, 2, 3])))
    assert verdict.outcome is Outcome.PASS, verdict.title


@needs("openvino")
@pytest.mark.parametrize(
    ("text", "inputs", "outcome"),
    [
        ("g (double[2] x) => (double[2] y) { y = Relu(x) }", {"x": np.ones(2)}, Outcome.UNSUPPORTED),
        ("g (float[2,2] x) => (float y) { y = Det(x) }", {"x": np.eye(2, dtype="f4")}, Outcome.UNSUPPORTED),
        ("g (int64[1] x) => (int64[1] y) { y = Mul(x, x) }", {"x": np.int64([1 << 40])}, Outcome.PASS),
        ("g (int64[1] x) => (int64[1] y) { y = Abs(x) }", {"x": np.int64([-(2**63)])}, Outcome.PASS),
        ("g (uint8[1] x) => (uint8[1] y) { y = Add(x, x) }", {"x": np.uint8([200])}, Outcome.PASS),
        ("g (float[2] x) => (float[2] y) { a = Dropout(x) y = Neg(a) }", {"x": F4}, Outcome.PASS),
        ("g (float[2,3] x) => (float[1,3] y) { y = ReduceLogSum <axes=[0]> (x) }",
         {"x": np.ones((2, 3), "f4")}, Outcome.MISMATCH),
    ],
    ids=["float64", "no rule", "beyond int32", "least", "clamped", "renamed input", "axes by attribute"],
)  # fmt: skip
def test_what_it_does_with(judge, text, inputs, outcome):
    verdict = judge.verdict(case(text, **inputs))
    assert verdict.outcome is outcome, verdict.title


@needs("openvino")
def test_a_title_says_what_is_wrong_before_the_condition_that_did_not_hold(judge):
    text = "g (float[1,2] x, int64[1,1] i) => (float[1,1] y) { y = GatherElements(x, i) }"
    verdict = judge.verdict(case(text, x=np.ones((1, 2), "f4"), i=np.int64([[0]])))
    assert verdict.title.startswith("RuntimeError during import: Shapes [1,2] and [1,1] are not consistent")


@needs("openvino")
def test_nine_tests_of_ten_are_of_what_it_has(judge):
    plan = Plan("random", legality=Legality(judge.executor.vocabulary(), lacks=backend.lacks))
    outcomes = Counter(judge.verdict(each).outcome for each in make_cases(plan, range(300, 330)))
    assert outcomes[Outcome.UNSUPPORTED] <= 3


@needs("openvino")
@pytest.mark.parametrize("operator", ["Mul", "Max"])
def test_a_weight_that_is_imported_wrongly_is_the_root_whatever_takes_it(judge, operator):
    """An empty weight becomes a scalar."""
    text = f"g (float[1] x) => (float[N] y) <float[0] w = {{}}> {{ y = {operator}(w, x) }}"
    whole = case(text, x=F4[:1])
    found = find_root(whole, judge.verdict(whole), (), judge)
    assert found.root.case.measure.ops == ("Identity",)
    assert "as inputs" in found.why
