"""What `crux check` costs beside two sessions of onnxruntime; into how many files it calls, and how deep."""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.helpers.commands import completed
from tests.helpers.failing import model

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

WALK = """
import sys
from triage.cli import run
ours = tuple(f"{sys.argv[1]}/{name}/" for name in ("corpus", "oracles", "reducer", "generators", "triage"))
files, depths = set(), []

def entered(frame, event, arg):
    codes = []
    while frame is not None and event == "call":
        codes, frame = [*codes, frame.f_code], frame.f_back
    own = [each.co_name for each in codes if each.co_filename.startswith(ours)]
    if own and codes[0].co_filename.startswith(ours) and "<module>" not in own:
        files.add(codes[0].co_filename)
        depths.append(sum(not name.startswith("<") for name in own))

sys.setprofile(entered)
run(["check", *sys.argv[2:]])
print(len(files), "files entered,", max(depths), "calls deep", file=sys.stderr)
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


def test_the_path_of_a_check(tmp_path, say):
    nodes = [("Add", ["x", "x"], ["a"]), ("Relu", ["a"], ["y"])]
    path = tmp_path / "passing.onnx"
    path.write_bytes(model(nodes, {"x": (1, [3])}, {"y": (1, [3])}).SerializeToString())
    done = completed([sys.executable, "-c", WALK, Path(__file__).parents[2], path])
    say(f"\ncrux check of two nodes: {done.stderr.splitlines()[-1]}")


def test_the_time_of_help(say):
    crux = [Path(sys.executable).with_name("crux"), "--help"]
    say(f"\ncrux --help: {1000 * min(cpu_seconds(crux) for _ in range(10)):.0f} ms of CPU time")
