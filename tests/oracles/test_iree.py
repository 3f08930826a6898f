"""IREE as a target: models on the CPU, held against un-optimised onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from corpus.errors import UserError
from corpus.target import Target
from oracles.backends import find_backend
from oracles.backends.iree import _in_short
from oracles.judge import Judge
from oracles.sandbox.executor import configs_of
from oracles.verdict import Config, Outcome, Phase, Run, Status
from tests.helpers.commands import needs
from tests.helpers.models import case_of, of_many_types

IREE = Target("iree")
backend = find_backend("iree")
case = partial(case_of, opset=17, ir=8, target=IREE)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(IREE) as found:
        yield found


def test_it_optimises_as_far_as_it_can_and_least_unless_one_way_is_asked_for():
    texts = ("iree", "iree@opt=O1", "iree@code=vmvx")
    labels = [[each.label for each in configs_of(Target.parse(text), "onnx")] for text in texts]
    assert [each[1:] for each in labels] == [["llvm-cpu O3", "llvm-cpu O0"], ["llvm-cpu O1"], ["vmvx O3"]]
    with pytest.raises(UserError, match="@opt= is one of O3, O2, O1, O0"):
        configs_of(Target.parse("iree@opt=O4"), "onnx")
    with pytest.raises(UserError, match="on the CPU only"):
        configs_of(Target.parse("iree:cuda"), "onnx")


def test_a_diagnostic_keeps_what_is_wrong_and_the_operator_but_no_place():
    said = [
        "source.mlir:4:10: failed to legalize operation 'torch.operator' that was explicitly marked illegal: "
        '%0 = "torch.operator"(%arg0) <{name = "onnx.Det"}> : (!torch.vtensor<[2,2],f32>) -> ()',
        "source.mlir:4:10: 'tensor.cast' op is wrong\n\nsource.mlir:4:10: see current operation: %1 = cast",
    ]
    assert _in_short(said).splitlines() == [
        "failed to legalize operation 'torch.operator' that was explicitly marked illegal (onnx.Det)",
        "'tensor.cast' op is wrong",
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("failed to legalize operation 'torch.operator' that was explicitly marked illegal", "unsupported"),
        ("unhandled torch type: '!torch.list<vtensor<[2],f32>>'", "unsupported"),
        ("failed to legalize unresolved materialization from ('tensor<3xi8>') to ('tensor<6xi8>')", ""),
    ],
)
def test_it_says_itself_what_it_does_not_have(message, expected):
    run = Run(Config("llvm-cpu O3"), Status.EXCEPTION, Phase.IMPORT, error="RuntimeError", message=message)
    assert backend.classify(run) == expected


@needs("iree")
def test_every_type_comes_back_as_it_is_declared(judge):
    verdict = judge.verdict(of_many_types(judge.target))
    assert verdict.outcome is Outcome.PASS, verdict.title


@needs("iree")
@pytest.mark.parametrize(
    ("text", "inputs", "outcome", "phase"),
    [
        ("g (float[2] x) => (float[2] y) { y = Swish(x) }", {"x": np.ones(2, "f4")},
         Outcome.UNSUPPORTED, Phase.IMPORT),
        ("g (float[2] x) => (float[n] y) { y = Unique(x) }", {"x": np.ones(2, "f4")},
         Outcome.CRASH, Phase.IMPORT),
        ("g (uint8[1] x, uint8 m) => (uint8[1] y) { y = Clip(x, , m) }",
         {"x": np.uint8([7]), "m": np.uint8(255)}, Outcome.MISMATCH, Phase.COMPARE),
    ],
    ids=["no lowering", "a crash of the importer", "a wrong value"],
)  # fmt: skip
def test_what_it_does_with(judge, text, inputs, outcome, phase):
    verdict = judge.verdict(case(text, opset=24 if "Swish" in text else 17, **inputs))
    assert (verdict.outcome, verdict.phase) == (outcome, phase), verdict.title
