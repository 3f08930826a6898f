"""`crux wrap` runs a program of the user's, and takes the graphs that torch keeps of it as cases."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpus.errors import UserError
from triage.cases.sources import run_wrapped

WRONG = """
import torch


def moved(x, slots):
    y = torch.tanh(x)
    return torch.index_put(y, (slots,), y)


torch.manual_seed(0)
torch.compile(moved)(torch.randn(64), torch.randperm(64))
"""


def test_the_program_runs_with_its_own_output_and_torch_keeps_graphs_in_the_folder(tmp_path):
    told = tmp_path / "told"
    code = f"import os; open({str(told)!r}, 'w').write(os.environ['TORCH_COMPILE_DEBUG_DIR']); os._exit(3)"
    ended = run_wrapped([sys.executable, "-c", code], tmp_path / "out", "errors")
    assert told.read_text() == str(tmp_path / "out" / "dumps")
    assert ended.sentence(0) == "the program ended with 3; no graph failed to compile"


def test_a_program_that_a_signal_ends_is_told_of(tmp_path):
    ended = run_wrapped(
        [sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"], tmp_path / "o", "errors"
    )
    assert ended.is_killed
    assert "SIGSEGV" in ended.sentence(0)


@pytest.mark.parametrize(
    ("command", "catch", "said"),
    [
        (["/no/such/program"], "errors", "cannot be started"),
        ([sys.executable], "none", "--catch none: one of"),
    ],
)
def test_what_cannot_be_run_is_one_line(command, catch, said, tmp_path):
    with pytest.raises(UserError, match=said):
        run_wrapped(command, tmp_path / "out", catch)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_graph_with_wrong_values_in_a_program_becomes_a_failing_case(tmp_path):
    (tmp_path / "train.py").write_text(WRONG)
    command = [sys.executable, "-m", "triage.cli", "wrap", "--catch", "all", "--json", "-o", "caught"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [*command, "--", sys.executable, "train.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    (found,) = json.loads(done.stdout[done.stdout.index("[") :])
    assert (done.returncode, found["outcome"], found["bug"]) == (1, "mismatch", True)
    assert "next: crux reduce caught/case-1 -o crux-small" in done.stderr
    assert (tmp_path / "caught" / "case-1" / "program.torch.json").is_file()
