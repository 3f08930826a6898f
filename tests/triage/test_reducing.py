"""Reducing into a folder: what stands there when a script cannot be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corpus.target import Target
from reducer.api import finished
from reducer.options import Options
from tests.triage.failing import division_crash
from triage.reductions import folders as reducing
from triage.repro.source import NotWritten


class Notes:
    """A progress display that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def status(self, text: str) -> None:
        pass

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_a_reduction_whose_script_cannot_be_written_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise NotWritten("cannot be written as a module (why)")

    monkeypatch.setattr(reducing, "source_of", refuse)
    notes = Notes()
    document, _ = reducing.reduce_into(
        division_crash(), tmp_path / "out", Options(target=Target("ort")), notes
    )
    assert document["nodes_after"] == 1
    assert finished(tmp_path / "out") is not None
    assert not (tmp_path / "out" / "repro.py").exists()
    assert notes.lines == ["no repro.py: cannot be written as a module (why)"]
