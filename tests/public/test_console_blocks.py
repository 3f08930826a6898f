"""Every console block of the README and the documents runs, in a folder with what they talk about."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.helpers.commands import completed
from tests.helpers.failing import clip_exception, model

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHOWS = {
    "check": {0, 1},
    "repro.py": {1},
    "doctor": {0, 1},
    "passes": {0, 1},
    "replay": {0, 1},
    "watch": {0, 1},
}
"""The exit codes that the first word of a command may have; of all others 0 only."""

TORCH_SCRIPT = """
import torch
model = torch.nn.Softplus()
inputs = (torch.linspace(-3, 3, 7),)
"""
RELAX_SCRIPT = """
import numpy as np
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "bool"), y: R.Tensor((2,), "bool")) -> R.Tensor((2,), "bool"):
        with R.dataflow():
            a = R.equal(x, y)
            z = R.logical_not(a)
            R.output(z)
        return z

inputs = [np.array([True, False]), np.array([True, True])]
"""
CHECK_SCRIPT = """
import sys, onnx
operators = [node.op_type for node in onnx.load(sys.argv[1]).graph.node]
sys.exit(0 if "Clip" in operators else 1)
"""


def blocks(page: str) -> list[str]:
    """The commands of a page's console blocks, in order."""
    lines = [line for block in BLOCK.findall((ROOT / page).read_text()) for line in block.splitlines()]
    return [line.removeprefix("$ ").partition("  #")[0].strip() for line in lines if line.startswith("$ ")]


def usual_folder(folder: Path) -> None:
    """What the documents' commands find in the folder that they are given in."""
    case = clip_exception()
    nodes = [
        ("Abs", ["x"], ["a"]),
        ("Relu", ["a"], ["r"]),
        ("Clip", ["r", "low"], ["c"]),
        ("Neg", ["c"], ["y"]),
    ]
    typed = (onnx.TensorProto.DOUBLE, [3])
    larger = model(nodes, {"x": typed}, {"y": typed}, {"low": np.array(-1.0)})
    (folder / "model.onnx").write_bytes(larger.SerializeToString())
    case.save(folder / "cases" / "clip")
    case.save(folder / "tests" / "cases" / "clip")
    (folder / "inputs.npz").write_bytes((folder / "cases" / "clip" / "inputs.npz").read_bytes())
    for name, text in {
        "script.py": TORCH_SCRIPT,
        "module.py": RELAX_SCRIPT,
        "my_check.py": CHECK_SCRIPT,
    }.items():
        (folder / name).write_text(text)


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command as the documents show it, with our own `crux` and `python`; long ones are made short."""
    line = re.sub(r"--(minutes|hunt) \d+", r"--\1 0.2", line)
    line = re.sub(r"--tests \d+", "--tests 16", re.sub(r"-j \d+", "-j 2", line))
    line = re.sub(r"^(bin/)?crux\b", f"{shlex.quote(sys.executable)} -m tensorcrux", line)
    line = re.sub(r"^python\b", shlex.quote(sys.executable), line)
    beside = str(Path(sys.executable).parent)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{beside}:{os.environ['PATH']}"}
    return completed(line, shell=True, cwd=folder, env=environment)


def command_of(line: str) -> str:
    words = shlex.split(line)
    return Path(words[1]).name if len(words) > 1 else words[0]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_every_console_block_runs(page, tmp_path):
    usual_folder(tmp_path)
    if "crux.db" in (ROOT / page).read_text() or "triage" in (ROOT / page).read_text():
        run("crux check cases/clip --db crux.db", tmp_path)
    for line in blocks(page):
        done = run(line, tmp_path)
        allowed = SHOWS.get(command_of(line), {0})
        assert done.returncode in allowed, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert done.stdout or done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if PYTHON.search((ROOT / page).read_text())])
def test_every_python_block_runs(page, tmp_path):
    """As a script, or in pytest where it is a test; a test may fail, since the model there may."""
    usual_folder(tmp_path)
    for at, text in enumerate(PYTHON.findall((ROOT / page).read_text())):
        is_test = "def test_" in text
        file = tmp_path / f"test_block_{at}.py"
        file.write_text(text)
        done = run(f"python {'-m pytest -q -p no:cacheprovider ' if is_test else ''}{file.name}", tmp_path)
        told = f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert done.returncode == 0 or (is_test and "smallest case: " in done.stdout), told
