"""What reads a model natively, onnx's checker and inference, can compute and answer, and no more."""

import subprocess
import sys

import pytest
from onnx import helper

from corpus.onnx import client
from corpus.onnx.graph import inlined, written_out
from tests.helpers.models import cyclic, relu
from tests.safety.test_launcher import ROOT
from triage.cli import run

CALLS = (
    "open('/etc/hostname')",
    "open('written', 'w')",
    "os.listdir('/')",
    "os.unlink('there')",
    "socket.socket()",
    "os.kill(os.getppid(), 0)",
    "os.fork()",
    "os.execv('/bin/true', ['true'])",
    "os.pipe()",
)


@pytest.mark.parametrize("call", CALLS)
def test_nothing_else_is_there(call):
    code = f"import os, socket\nfrom corpus.onnx.server import shut_in\nshut_in()\nprint('in')\n{call}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "in\n")
    assert "FileNotFoundError" in done.stderr


def test_onnx_answers_all_the_same():
    sound, cycle = relu().SerializeToString(), cyclic().SerializeToString()
    assert client.infer_types(sound)
    assert client.check(sound, sound) is None
    assert "topologically sorted" in (client.check(cycle, cycle) or "")


def test_functions_that_call_themselves_are_not_written_out():
    model = relu()
    opsets = [*model.opset_import, helper.make_opsetid("own", 1)]
    again = helper.make_node("F", ["a"], ["b"], domain="own")
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], [again], opsets))
    for write_out in (written_out, inlined):
        with pytest.raises(ValueError, match=r"[Cc]ycl"):
            write_out(model)


def test_a_reduction_of_odd_models_ends_in_a_line_or_a_result(tmp_path):
    model = relu()
    model.graph.sparse_initializer.add()
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    words = ["reduce", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out"), "--check", "true"]
    assert run([*words, "--max-checks", "8"]) in (0, 2)
