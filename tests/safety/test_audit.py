"""What an audit of other kinds has shown: locales, folders that go away, what a log is."""

import os
import shutil
import subprocess
import sys

import pytest

from corpus.errors import UserError
from corpus.reading import write_fresh
from tests.helpers.failing import clip_exception
from tests.helpers.models import relu, write
from tests.safety.test_launcher import ROOT
from triage.cli import run
from triage.store.database import Store


def test_a_locale_without_utf_8_changes_nothing(tmp_path):
    write(tmp_path, relu()).rename(tmp_path / "m\u00f6del.onnx")
    ascii_only = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "tensorcrux", "show", "m\u00f6del.onnx"]
    done = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, **ascii_only}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "m\u00f6del.onnx" in done.stdout.decode()


def test_a_folder_that_goes_away_while_it_is_written_to_is_one_line(tmp_path):
    (tmp_path / "out").mkdir()
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(UserError, match="is gone"):
        write_fresh(tmp_path / "out" / "model.onnx", b"")


@pytest.mark.parametrize(
    "words",
    [
        ["check", "model.onnx", "--timeout", "inf"],
        ["check", "model.onnx", "--memory", "9" * 20],
        ["check", "model.onnx", "--db", "."],
        ["report", "model.onnx", "-o", "/proc/x"],
        ["triage", "why", "C99999999999999999999", "C0001", "--db", "crux.db"],
        ["check", "-"],
    ],
    ids=" ".join,
)
def test_an_odd_argument_is_one_line(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    clip_exception().save(tmp_path / "case")
    write(tmp_path, relu())
    Store(tmp_path / "crux.db").close()
    monkeypatch.setattr(sys, "stdin", ["[" * 100_000])
    assert run(words if words[0] != "report" else ["report", "case", *words[2:]]) in (0, 2)
    assert "failure of its own" not in capsys.readouterr().err


def test_a_name_that_turns_the_line_around_is_written_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = relu()
    model.graph.input[0].name = model.graph.node[0].input[0] = "\u202ex\n::error::y"
    path = write(tmp_path, model).rename(tmp_path / "a\n::error::b.onnx")
    for words in (["show", str(path)], ["diff", str(path), str(path)], ["check", str(path)]):
        run(words)
        said = capsys.readouterr()
        assert "\u202e" not in said.out + said.err
        assert "\n::" not in said.out + said.err  # a command of GitHub's to its runner
