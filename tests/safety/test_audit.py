"""What an audit of other kinds has shown: locales, folders that go away, what a log is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corpus.errors import UserError
from corpus.reading import write_fresh
from tests.helpers.models import relu, write
from tests.safety.test_launcher import ROOT


def test_a_locale_without_utf_8_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, relu()).rename(tmp_path / "m\u00f6del.onnx")
    ascii_only = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "tensorcrux", "show", "m\u00f6del.onnx"]
    done = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, **ascii_only}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "m\u00f6del.onnx" in done.stdout.decode()


def test_a_folder_that_goes_away_while_it_is_written_to_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(UserError, match="is gone"):
        write_fresh(tmp_path / "out" / "model.onnx", b"")
