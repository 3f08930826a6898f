"""What crux gives to be pasted is quoted; what it says of a stranger's names is escaped."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.reading import write_fresh
from tests.helpers.models import cyclic, relu, write
from tests.helpers.sources import ROOT, sources
from triage.cases.replaying import write_junit
from triage.cli import run
from triage.store.database import Store

COMMAND = re.compile(r"crux (?!ended)[a-z]+( [a-z-]+)*( (-o|--from|--db|--record))? $")
QUOTES = {"quoted", "quote", "next_command", "join"}
SAFE = {
    "names": "ids that crux gives to bugs",
    "name": "an id that crux gives to a bug",
    "id": "an id that crux gives to a bug",
    "first": "quoted a line above",
}


def pasted() -> Iterator[tuple[str, str]]:
    """Yield what stands in a command that a text of ours gives, and is not quoted there."""
    for path, tree in sources().items():
        if not path.startswith("triage/"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield from ((path, ast.unparse(value)) for value in _inserted(node))


def _inserted(text: ast.JoinedStr) -> Iterator[ast.expr]:
    before = ""
    for part in text.values:
        if isinstance(part, ast.Constant):
            before += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            if COMMAND.search(before) and not _is_quoted(part.value):
                yield part.value
            before += "x"


def _is_quoted(value: ast.expr) -> bool:
    called = value.func if isinstance(value, ast.Call) else value
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        name = str(value.slice.value)
    return name in (QUOTES if isinstance(value, ast.Call) else SAFE)


def test_every_command_that_is_given_to_be_pasted_is_quoted():
    assert [*pasted()] == []


HOSTILE = "$(touch ran) `touch ran`;touch ran\n--trust.onnx"


@pytest.mark.parametrize("command", ["show", "check"])
def test_the_next_command_can_be_pasted(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, relu()).rename(tmp_path / HOSTILE)
    run([command, HOSTILE])
    for line in capsys.readouterr().err.split("next: ")[1:]:
        subprocess.run(["sh", "-c", line.replace("crux ", ": ", 1)], cwd=tmp_path, check=False)
    assert not (tmp_path / "ran").exists()


def test_the_page_for_an_invalid_model_quotes_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, cyclic()).rename(tmp_path / "a`b $(touch ran).onnx")
    assert run(["report", "a`b $(touch ran).onnx", "-o", "out"]) in (0, 1, 2)
    for path in Path("out").rglob("*.md"):
        assert "crux check 'a`b $(touch ran).onnx'" in path.read_text()


def test_a_name_with_a_newline_adds_no_option_to_the_actions_command(tmp_path):
    cases = tmp_path / "cases"
    for name in ("one\n--trust", "two\n-x", "--three"):
        write(cases / name, relu())
    said = tmp_path / "said"
    crux = tmp_path / "crux"
    crux.write_text(f'#!/bin/sh\nfor word; do printf "%s\\0" "$word" >>{said}; done\n')
    crux.chmod(0o755)
    environment = {
        "PATH": "/usr/bin:/bin",
        "CASES": str(cases),
        "OUT": str(tmp_path / "out"),
        "CRUX": str(crux),
    }
    subprocess.run([ROOT / ".ci/judge-cases"], env=environment, check=False, capture_output=True)
    words = said.read_text().split("\0")[:-1]
    options = words[: words.index("--")]
    assert "--trust" not in options
    assert {*words[len(options) + 1 :]} >= {
        str(cases / name) for name in ("one\n--trust", "two\n-x", "--three")
    }


def test_a_path_that_is_no_text_is_written_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"\xff.onnx")
    write(tmp_path, relu()).rename(tmp_path / name)
    assert run(["reduce", name, "-o", "out", "--check", "true"]) == 0
    assert run(["check", "out", "--db", "crux.db"]) == 0
    assert Case.load(tmp_path / "out").origin == "\\udcff.onnx"


def test_a_junit_report_can_be_read_whatever_names_hold(tmp_path):
    document = {"case": "a\x00\x1b[2J\ud800<&", "title": "]]>\x07", "target": "ort", "status": "differs"}
    write_junit(tmp_path / "junit.xml", [{**document, "expected": "\ufffe", "seen": "x"}])
    (test,) = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert test.get("name") == "a\\x00\\x1b[2J\\ud800<&"


# What an audit of other kinds has shown: locales, folders that go away, what a log is


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
        ["triage", "why", "C99999999999999999999", "C0001", "--db", "crux.db"],
        ["check", "-"],
    ],
    ids=" ".join,
)
def test_an_odd_argument_is_one_line(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, relu())
    Store(tmp_path / "crux.db").close()
    monkeypatch.setattr(sys, "stdin", ["[" * 100_000])
    assert run(words) in (0, 2)
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


# The page of a hunt is served to browsers, which come and go as they like
