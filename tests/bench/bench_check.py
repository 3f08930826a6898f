"""What `crux check` costs beside two plain sessions of onnxruntime, on models of the zoo."""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

pytestmark = pytest.mark.bench

TWO_SESSIONS = """
import sys, numpy, onnxruntime
kept = numpy.load(sys.argv[1])
levels = onnxruntime.GraphOptimizationLevel
for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
    session.run(None, {each.name: kept[each.name] for each in session.get_inputs()})
"""


def cpu_seconds(command: list[str | Path]) -> float:
    """What a process and those that it waits for take."""
    ended = subprocess.Popen(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(ended.pid, 0)
    ended.returncode = os.waitstatus_to_exitcode(status)
    assert ended.returncode == 0, command
    return usage.ru_utime + usage.ru_stime


def test_the_cost_of_a_check(tmp_path, say):
    """`CRUX_SEEDED_ZOO` is a folder to keep the models in; every other entry of the zoo is taken."""
    pytest.importorskip("onnxscript")
    from tests.zoo.models import ZOO, build

    script = tmp_path / "two_sessions.py"
    script.write_text(TWO_SESSIONS)
    crux = [Path(sys.executable).with_name("crux"), "check", "--inputs"]
    checks, plain = [], []
    for entry in ZOO[::2]:
        case = build(entry, Path(os.environ.get("CRUX_SEEDED_ZOO", tmp_path)))
        files = [case / "inputs.npz", case / "model.onnx"]
        checks.append(min(cpu_seconds([*crux, *files]) for _ in range(3)))
        plain.append(min(cpu_seconds([sys.executable, script, *files]) for _ in range(3)))
    times = median(one / other for one, other in zip(checks, plain, strict=True))
    say(f"\n{len(checks)} models: check {median(checks):.2f} CPU-s, {times:.2f} times two sessions")
