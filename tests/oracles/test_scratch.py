"""Scratch directories: nobody's are removed, and those of the living are left alone."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from oracles.sandbox import scratch
from oracles.sandbox.scratch import HALF_MADE, Scratch


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))


def test_what_the_dead_left_is_removed_by_the_next_and_what_the_living_hold_is_not(tmp_path: Path) -> None:
    left = tmp_path / f"{scratch.PREFIX}dead"
    left.mkdir()
    (left / scratch.LOCK).touch()
    with closing(Scratch()) as first, closing(Scratch()) as second:
        assert not left.exists()
        assert first.folder.exists()
        assert second.folder.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("age", "stays"), [(0.0, True), (HALF_MADE + 60, False)])
def test_one_who_died_before_its_lock_was_made_leaves_a_directory_for_a_while(
    age: float, stays: bool, tmp_path: Path
) -> None:
    """As long as it may still be somebody who is making it."""
    left = tmp_path / f"{scratch.PREFIX}half"
    left.mkdir()
    os.utime(left, (time.time() - age, time.time() - age))
    with closing(Scratch()):
        assert left.exists() is stays
