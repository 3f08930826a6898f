"""Real releases of onnxruntime, installed from the configured package index and kept between runs."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from corpus.case import Case
from tests.helpers.failing import ORT, model
from triage.store.database import Store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CACHE = Path(tempfile.gettempdir()) / "crux-test-environments" / "bisect"


def pad_before_maxpool() -> Case:
    """Zeros of Pad are values, those of MaxPool are none: wrong since a fusion takes one for the other."""
    nodes = [("Pad", ["x", "pads"], ["p"]), ("MaxPool", ["p"], ["y"], {"kernel_shape": [2, 2]})]
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    typed = {"x": (TensorProto.FLOAT, [1, 1, 3, 3])}, {"y": (TensorProto.FLOAT, [1, 1, 4, 4])}
    made = model(nodes, *typed, {"pads": pads})
    inputs = {"x": -np.ones((1, 1, 3, 3), np.float32)}
    return Case("onnx", made.SerializeToString(), inputs, ORT)


def bisect(folder: Path, *words: str) -> dict[str, object]:
    command = [sys.executable, "-m", "triage.cli", "bisect", str(folder / "case"), "--json"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    if "package index" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_release_that_brought_a_wrong_fusion_is_found_and_remembered(tmp_path):
    pad_before_maxpool().save(tmp_path / "case")
    database = tmp_path / "crux.db"
    words = ["--versions", "1.19.0..1.20.1", "--cache", str(CACHE), "--db", str(database)]
    found = bisect(tmp_path, *words)
    assert (found["last_good"], found["first_bad"], found["first_fixed"]) == ("1.19.2", "1.20.0", None)
    assert [each["release"] for each in found["tried"]] == ["1.19.0", "1.19.2", "1.20.0", "1.20.1"]
    assert "mismatch" in found["symptom"]
    with Store(database) as store:
        assert len(store.rows("SELECT * FROM check_results")) == 4
    journal = os.stat(next(iter((CACHE / "bisections").iterdir()))).st_size
    assert bisect(tmp_path, *words) == found
    assert os.stat(next(iter((CACHE / "bisections").iterdir()))).st_size == journal


def test_an_old_release_gets_the_numpy_that_it_was_built_for(tmp_path):
    pad_before_maxpool().save(tmp_path / "case")
    found = bisect(tmp_path, "--versions", "1.17.3..1.17.3", "--cache", str(CACHE))
    (tried,) = found["tried"]
    assert (tried["outcome"], tried["numpy"].split(".")[0]) == ("pass", "1")
    assert found["first_bad"] is None


def test_a_program_of_loops_is_judged_as_one_under_each_release(tmp_path):
    known = Path(__file__).parents[2] / "corpus" / "regressions" / "tir-name-within-before-cse"
    shutil.copytree(known, tmp_path / "case")
    found = bisect(tmp_path, "--versions", "0.27.0..0.27.0.post1", "--cache", str(CACHE))
    assert [each["outcome"] for each in found["tried"]] == ["exception", "exception"]
    assert (found["first_bad"], found["first_fixed"]) == ("0.27.0", None)
