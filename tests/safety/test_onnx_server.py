"""What reads a model natively, onnx's checker and inference, can compute and answer, and no more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from corpus.onnx import client
from tests.helpers.models import cyclic, relu
from tests.safety.test_launcher import ROOT

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
def test_nothing_else_is_there(call: str) -> None:
    code = f"import os, socket\nfrom corpus.onnx.server import shut_in\nshut_in()\nprint('in')\n{call}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "in\n")
    assert "FileNotFoundError" in done.stderr


def test_onnx_answers_all_the_same() -> None:
    sound, cycle = relu().SerializeToString(), cyclic().SerializeToString()
    assert client.infer_types(sound)
    assert client.check(sound, sound) is None
    assert "topologically sorted" in (client.check(cycle, cycle) or "")
