"""What lies behind a failure that stops a model."""

import json

import numpy as np
import onnx
import pytest

from corpus.case import Case
from oracles.verdict import Verdict
from tests.helpers.commands import crux
from tests.helpers.failing import on_ort
from triage.cases.past import Stop, stops_in


def two_bugs() -> Case:
    """A Clip that stops the optimiser, beside a division that ends the process, and what follows both."""
    text = """g (double[3] x, int64[3] a, int64[3] b) => (double[3] y, int64[3] z) <double low = {-1}> {
        r = Relu (x) c = Clip (r, low) d = Div (a, b) z = Neg (d) y = Neg (c) }"""
    low = np.array([np.iinfo(np.int64).min, 2, 3])
    return on_ort(text, x=np.array([-1.0, 0.5, 2.0]), a=low, b=np.array([-1, 1, 1]))


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


# Sizes of dims that are asked for, and a folder of samples judged in one go

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[batch,seq] x) => (float[batch,seq] y) { y = Softmax(x) }"""


@pytest.fixture
def folder(tmp_path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    return tmp_path


def test_sizes_of_dims_are_asked_for_by_name(folder):
    done = crux(folder, "show", "model.onnx", "--dims", "batch=2,seq=16")
    assert done.returncode == 0, done.stderr
    assert "[2, 16]" in done.stdout or "[2,16]" in done.stdout
    wrong = crux(folder, "check", "model.onnx", "--dims", "length=4")
    assert wrong.returncode == 2
    assert "symbolic dim 'length' (it has batch, seq)" in wrong.stderr
    assert crux(folder, "check", "model.onnx", "--dims", "seq").returncode == 2


def test_a_folder_of_samples_is_judged_in_one_go(folder):
    (folder / "samples").mkdir()
    for size in (1, 5):
        np.savez(folder / f"samples/{size}.npz", x=np.ones((2, size), np.float32))
    done = crux(folder, "check", "model.onnx", "--inputs", "samples", "--json")
    found = json.loads(done.stdout)
    assert [each["outcome"] for each in found] == ["pass", "pass"]
    assert [each["inputs"] for each in found] == ["samples/1.npz", "samples/5.npz"]
