"""torch's ONNX exporters as a target: what they export gives what eager torch gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import parser

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from generators.changes.modes import Mode
from generators.legality import Legality
from generators.mixture import Plan, make_cases
from oracles.judge import Judge
from oracles.sandbox.configurations import configs_of
from oracles.verdict import Outcome

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'


def case(text: str, **inputs: object) -> Case:
    model: onnx.ModelProto = parser.parse_model(f"{HEADER} {text}")
    return Case("onnx", model.SerializeToString(), {name: np.asarray(each) for name, each in inputs.items()})


def test_eager_torch_comes_first_and_an_exporter_can_be_chosen() -> None:
    labels = [config.label for config in configs_of(Target.parse("torch-onnx"), "onnx")]
    assert labels == ["torch eager", "torchscript", "dynamo"]
    assert len(configs_of(Target.parse("torch-onnx@exporter=dynamo"), "onnx")) == 2
    with pytest.raises(UserError, match="@exporter= is one of"):
        configs_of(Target.parse("torch-onnx@exporter=none"), "onnx")


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_what_is_exported_gives_the_same(exporter: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    text = "g (float[2,3] x) => (float[3,2] y) { a = Relu(x) b = Exp(a) y = Transpose(b) }"
    with Judge(Target.parse(f"torch-onnx@exporter={exporter}")) as judge:
        verdict = judge.verdict(case(text, x=np.ones((2, 3), "float32")))
    assert verdict.outcome is Outcome.PASS, verdict.title
    assert [run.config.label for run in verdict.runs] == ["torch eager", exporter]


@pytest.mark.slow
def test_what_the_exporter_has_no_words_for_is_no_bug() -> None:
    pytest.importorskip("torch")
    text = "g (float[2,3] x) => (float[2,3] y) { y = Asinh(x) }"
    with Judge(Target.parse("torch-onnx@exporter=torchscript")) as judge:
        verdict = judge.verdict(case(text, x=np.ones((2, 3), "float32")))
        assert verdict.outcome in (Outcome.UNSUPPORTED, Outcome.PASS), verdict.title
        plan = Plan("random", Mode.STRICT, nodes=3, legality=Legality(judge.executor.vocabulary()))
        outcomes = Counter(judge.verdict(each).outcome for each in make_cases(plan, range(10)))
    assert outcomes[Outcome.PASS] > 5
