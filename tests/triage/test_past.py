"""What lies behind a failure that stops a model."""

import json

import numpy as np
from onnx import TensorProto

from corpus.case import Case
from corpus.target import Target
from oracles.verdict import Verdict
from tests.helpers.commands import crux
from tests.helpers.failing import model
from triage.cases.past import Stop, stops_in


def two_bugs() -> Case:
    """A Clip that stops the optimiser, beside a division that ends the process, and what follows both."""
    low = np.array([np.iinfo(np.int64).min, 2, 3], np.int64)
    made = model(
        [
            ("Relu", ["x"], ["r"]),
            ("Clip", ["r", "low"], ["c"]),
            ("Div", ["a", "b"], ["d"]),
            ("Neg", ["d"], ["z"]),
            ("Neg", ["c"], ["y"]),
        ],
        {"x": (TensorProto.DOUBLE, [3]), **dict.fromkeys("ab", (TensorProto.INT64, [3]))},
        {"y": (TensorProto.DOUBLE, [3]), "z": (TensorProto.INT64, [3])},
        {"low": np.array(-1.0)},
    )
    inputs = {"x": np.array([-1.0, 0.5, 2.0]), "a": low, "b": np.array([-1, 1, 1], np.int64)}
    return Case("onnx", made.SerializeToString(), inputs, Target("ort"))


def test_what_follows_a_failure_is_judged_with_its_value_handed_in(crash_judge):
    case = two_bugs()
    *stops, rest = stops_in(case, crash_judge, crash_judge.verdict(case))
    assert sorted(each.operator for each in stops if isinstance(each, Stop)) == ["Clip", "Div"]
    assert isinstance(rest, Verdict)
    assert not rest.is_bug


def test_check_says_what_lies_behind(crash_judge, tmp_path):
    two_bugs().save(tmp_path / "case")
    done = crux(tmp_path, "check", "case", "--past", "--json")
    document = json.loads(done.stdout)
    known = {each["op"]: each["known"] for each in document["past"]}
    assert (done.returncode, known["Clip"]) == (1, "relu-clip-not-float")
    assert document["behind"]["outcome"] == "pass"
