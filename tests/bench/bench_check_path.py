"""`crux check`: how many of our files it enters, how deep it calls, what it costs; the CPU time of `--help`.

    bin/test -m bench tests/bench/bench_check_path.py -s

A file is entered when a function of it runs in crux's own process, in any thread; importing it is no entry.
Depth counts our frames on the stack, comprehensions apart.
"""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import pytest

from tests.helpers.commands import completed
from tests.helpers.failing import model

ROOT = Path(__file__).parents[2]
RUNS = 10
WALK = """
import sys, threading, os
root = sys.argv.pop(1)
ours = tuple(f"{root}/{name}/" for name in ("corpus", "oracles", "reducer", "generators", "triage"))
files, deepest = {}, []

def is_ours(frame):
    return frame.f_code.co_filename.startswith(ours) and not frame.f_code.co_name.startswith("<")

def entered(frame, event, arg):
    global deepest
    if event != "call" or not is_ours(frame):
        return
    stack = []
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_back:
            return  # a module is being imported
        if is_ours(frame):
            stack.append(f"{frame.f_code.co_filename[len(root) + 1:]}:{frame.f_code.co_name}")
        frame = frame.f_back
    files.setdefault(stack[0].partition(":")[0], []).append(stack[0].partition(":")[2])
    if len(stack) > len(deepest):
        deepest = stack

from triage.cli import run
threading.setprofile(entered)
sys.setprofile(entered)
code = run(sys.argv[1:])
sys.setprofile(None)
print(len(files), len(deepest), code, file=sys.stderr)
for name in sorted(files):
    print(f"{name}: {', '.join(dict.fromkeys(files[name]))}", file=sys.stderr)
print(*reversed(deepest), sep="\\n", file=sys.stderr)
"""
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

pytestmark = pytest.mark.bench


def two_nodes(folder: Path, kind: str) -> Path:
    """A model that passes, or one that the installed onnxruntime gets wrong."""
    if kind == "passing":
        nodes, typed = [("Add", ["x", "x"], ["a"]), ("Relu", ["a"], ["y"])], (onnx.TensorProto.FLOAT, [3])
    else:  # DivMulFusion takes (1 / x) * x of integers for x / x
        nodes, typed = (
            [("Div", ["one", "x"], ["a"]), ("Mul", ["a", "x"], ["y"])],
            (onnx.TensorProto.INT32, []),
        )
    made = model(nodes, {"x": typed}, {"y": typed}, {"one": np.array(1, np.int32)})
    path = folder / f"{kind}.onnx"
    path.write_bytes(made.SerializeToString())
    return path


@pytest.mark.parametrize("kind", ["passing", "mismatching"])
def test_the_path_of_a_check(kind, tmp_path, say):
    path = two_nodes(tmp_path, kind)
    command = [sys.executable, "-c", WALK, ROOT, "check", path]
    done = completed(command, cwd=ROOT)
    files, deep, _ = re.findall(r"^(\d+) (\d+) (\d)$", done.stderr, re.M)[0]
    say(f"\ncrux check, {kind}: {files} of our files entered, {deep} calls deep\n{done.stderr}")


def test_the_time_of_help(say):
    times = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([Path(sys.executable).with_name("crux"), "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    say(f"\ncrux --help: {min(times) * 1000:.0f} ms of CPU time, the least of {RUNS} runs")


def cpu_seconds(command: list[str | Path]) -> float:
    """What a process and those that it waits for take."""
    ended = subprocess.Popen(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(ended.pid, 0)
    ended.returncode = os.waitstatus_to_exitcode(status)
    assert ended.returncode == 0, command
    return usage.ru_utime + usage.ru_stime


def test_the_cost_of_a_check(tmp_path, say):
    """`CRUX_SEEDED_ZOO` is a folder to keep the models in; every third entry of the zoo is taken."""
    pytest.importorskip("onnxscript")
    from tests.zoo.models import ZOO, build

    script = tmp_path / "two_sessions.py"
    script.write_text(TWO_SESSIONS)
    crux = [Path(sys.executable).with_name("crux"), "check", "--inputs"]
    checks, plain = [], []
    for entry in ZOO[::3]:
        case = build(entry, Path(os.environ.get("CRUX_SEEDED_ZOO", tmp_path)))
        files = [case / "inputs.npz", case / "model.onnx"]
        checks.append(min(cpu_seconds([*crux, *files]) for _ in range(3)))
        plain.append(min(cpu_seconds([sys.executable, script, *files]) for _ in range(3)))
    times = median(one / other for one, other in zip(checks, plain, strict=True))
    say(f"\n{len(checks)} models: check {median(checks):.2f} CPU-s, {times:.2f} times two sessions")
