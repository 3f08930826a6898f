"""The worker under other interpreters: older releases of onnxruntime, numpy 1 and 2, nothing else there."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from corpus.target import Target
from oracles.backends import find_backend
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Limits, Status

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CACHE = Path(tempfile.gettempdir()) / "crux-test-environments"
RELEASES = [("1.17.3", "numpy<2"), ("1.20.1", "numpy>=2")]
CONFIGS = find_backend("ort").configs(Target("ort"))[:2]
LIMITS = Limits(cpu_seconds=5, wall_seconds=20, memory_bytes=1 << 30)


def environment(release: str, numpy: str) -> Path:
    """The interpreter of an environment with these two packages only, made once."""
    folder = CACHE / f"onnxruntime-{release}-{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        commands = [
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "-q", f"onnxruntime=={release}", numpy],
        ]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"onnxruntime {release} cannot be had: {done.stderr.strip()[-200:]}")
        (folder / "complete").touch()
    return python


@pytest.fixture(scope="module", params=RELEASES, ids=lambda row: row[0])
def old(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox("ort", python=str(environment(*request.param)), limits=LIMITS) as sandbox:
        assert sandbox.facts["version"] == request.param[0]
        assert (sandbox.facts["numpy"] < "2") == (request.param[1] == "numpy<2")
        yield sandbox


def model(operator: str, kind: int, arity: int, opset: int = 18) -> bytes:
    names = ["x", "z"][:arity]
    ends = [helper.make_tensor_value_info(name, kind, ["n"]) for name in names]
    node = helper.make_node(operator, names, ["y"])
    graph = helper.make_graph([node], "g", ends, [onnx.ValueInfoProto(name="y")])
    version = helper.make_opsetid("", opset)
    proto: onnx.ModelProto = helper.make_model(graph, opset_imports=[version], ir_version=9)
    return proto.SerializeToString()


@pytest.mark.parametrize("name", ["float32", "int64", "bool", "float16", "bfloat16", "float8_e4m3fn"])
def test_an_old_release_takes_and_gives_every_type(old, name):
    value = np.ones(3).astype(np.dtype(getattr(ml_dtypes, name, name)))
    program = model("Identity", helper.np_dtype_to_tensor_dtype(value.dtype), 1, opset=19)
    for run in old.run(Job(program, {"x": value}, CONFIGS)):
        found = run.outputs["y"]

        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.tobytes()) == (value.dtype, value.tobytes())


def test_an_old_release_takes_and_gives_strings(old):
    runs = old.run(Job(model("Identity", TensorProto.STRING, 1), {"x": np.array(["ü", ""])}, CONFIGS))

    assert [np.asarray(run.outputs["y"]).tolist() for run in runs] == [["ü", ""]] * 2


def test_an_old_release_crashes_in_its_own_process(old):
    inputs = {"x": np.array([-(2**63)]), "z": np.array([-1])}
    runs = old.run(Job(model("Mod", TensorProto.INT64, 2), inputs, CONFIGS))

    assert [(run.status, run.signal) for run in runs] == [(Status.CRASH, 8)] * 2
    assert all("onnxruntime" in run.frames[0].library for run in runs)


def test_an_old_release_has_tables(old):
    assert any(row[:3] == ["", "Relu", "CPUExecutionProvider"] for row in old.ask("tables"))
