"""Sizes of dims that are asked for, and a folder of samples judged in one go."""

import json

import numpy as np
import onnx
import pytest

from tests.helpers.commands import crux

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
