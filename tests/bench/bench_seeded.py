"""Measurement: wrong optimisers planted into the models of the zoo, and what crux sees of them.

`CRUX_SEEDED_BENCH` names the folder with `make_python.py` and `seeded.py`; `CRUX_SEEDED_MODELS` the entries
of the zoo (all), `CRUX_SEEDED_MODE` is `check` or `reduce`. See BENCHMARKS.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0)]
BENCH = Path(os.environ.get("CRUX_SEEDED_BENCH", "/nowhere"))
NAMES = os.environ.get("CRUX_SEEDED_MODELS", "")
MODE = os.environ.get("CRUX_SEEDED_MODE", "check")
CRUX = Path(sys.executable).with_name("crux")


@pytest.mark.skipif(not (BENCH / "seeded.py").is_file(), reason="CRUX_SEEDED_BENCH names no such benchmark")
def test_planted_faults_are_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxscript")
    from tests.zoo.models import ZOO, build

    chosen = [
        entry for entry in ZOO if entry.net is not None and (not NAMES or entry.name in NAMES.split(","))
    ]
    cases = [build(entry, tmp_path / "zoo") for entry in chosen]
    subprocess.run([sys.executable, BENCH / "make_python.py", tmp_path / "wrong"], check=True)
    words = [sys.executable, BENCH / "seeded.py", tmp_path / "wrong", "--cases", *cases, "--crux", CRUX]
    with capsys.disabled():
        subprocess.run([*words, *(["--reduce"] if MODE == "reduce" else [])], check=True)
