"""ONNX's own backend tests: each passes, fails or is refused, and the standard's values are what counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from corpus.case import Case
from corpus.target import Target
from oracles.judge import Judge
from triage.cases.conformance import StandardTest, conform_one, save, standard_tests
from triage.cli import run

ADD = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'
DRAWN = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = RandomUniformLike(x) }'
NEWER = '<ir_version: 99, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'


def standard(text: str, *expected: float) -> StandardTest:
    """A test of one operator on [1, 2]."""
    program = onnx.parser.parse_model(text).SerializeToString()
    case = Case("onnx", program, {"x": np.array([1, 2], np.float32)})
    return StandardTest("test_it", case, {"y": np.array(expected, np.float32)}, 1e-3, 1e-7)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(Target("ort")) as found:
        yield found


@pytest.mark.parametrize(
    ("test", "status"),
    [
        (standard(ADD, 2, 4), "passes"),
        (standard(ADD, 2, 4.001), "passes"),  # within the test's own tolerance
        (standard(ADD, 2, 5), "fails"),
        (standard(ADD, 2, 4, 6), "fails"),
        (standard(DRAWN, 7, 7), "passes"),  # only its type is fixed
        (standard(DRAWN, 7, 7, 7), "fails"),
        (standard(NEWER, 2, 4), "refused"),
    ],
)
def test_a_target_is_held_to_what_the_standard_gives(test: StandardTest, status: str, judge: Judge) -> None:
    found = conform_one(test, judge)
    assert found["status"] == status, found
    assert bool(found["seen"]) == (status != "passes")


def test_a_test_is_kept_with_the_values_that_the_standard_gives(tmp_path: Path) -> None:
    save(replace(standard(ADD, 2, 4), name="test_add"), tmp_path, Target("ort"))
    assert Case.load(tmp_path / "test_add").target == Target("ort")
    with np.load(tmp_path / "test_add/expected.npz") as kept:
        assert kept["y"].tolist() == [2, 4]


def test_a_bad_expression_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conformance", "--only", "("]) == 2
    assert "no regular expression" in capsys.readouterr().err


@pytest.mark.slow
def test_onnxruntime_fails_no_test_of_arithmetic(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conformance", "--only", "^test_(add|sub|mul|div)(_bcast)?$|^test_operator_", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) > 30
    assert {each["test"]: each["status"] for each in found}["test_add"] == "passes"
    assert [each for each in found if each["status"] == "fails"] == []


@pytest.mark.slow
def test_every_test_is_a_case_with_inputs_that_fit() -> None:
    found = list(standard_tests(re.compile("")))
    assert len(found) > 1500
    assert len({each.name for each in found}) == len(found)
    for each in found:
        types = {value.name for value in each.case.parsed.graph.input}
        assert set(each.case.inputs) <= types
        assert set(each.expected) <= {value.name for value in each.case.parsed.graph.output}
