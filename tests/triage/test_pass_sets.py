import json
from pathlib import Path
from typing import Any

import pytest

from corpus.target import Target
from oracles.optimisers.ort_passes import DISABLED_BY
from reducer.api import finished
from reducer.course import Options
from reducer.pass_sets import PassSet
from tests.helpers.commands import crux
from tests.helpers.failing import clip_exception, division_crash, healthy
from triage.cases.patterns import advice
from triage.reductions import folders as reducing
from triage.repro.source import NotWritten


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    division_crash().save(tmp_path / "crash")
    clip_exception().save(tmp_path / "clip")
    healthy().save(tmp_path / "healthy")
    return tmp_path


def test_passes_prints_the_contract_of_the_documents(folder):
    done = crux(folder, "passes", "clip", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["minimal"] == ["FuseReluClip"]
    assert document["unique"] is True
    assert document["checks"] == 3


def test_passes_exits_with_1_when_the_failure_does_not_show(folder):
    done = crux(folder, "passes", "healthy", "--json")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "does not show" in done.stderr


def test_a_target_without_passes_is_bad_usage(folder):
    done = crux(folder, "passes", "clip", "--target", "reference")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_an_issue_says_what_to_disable(folder):
    assert crux(folder, "report", "clip", "-o", "out").returncode == 0
    text = (folder / "out" / "clip" / "issue.md").read_text()
    assert 'Disabling only `FuseReluClip` makes it go away: `disabled_optimizers=["FuseReluClip"]`' in text


ADVICE = {
    "no search": (None, ""),
    "without optimisation": (PassSet((), "none", 0), ""),
    "one": (
        PassSet(("A",), "all", 2, cures=("A",)),
        'Disabling only `A` makes it go away: `disabled_optimizers=["A"]` of `InferenceSession`.',
    ),
    "either of two": (
        PassSet(("A", "B"), "all", 2, cures=("A", "B")),
        "Disabling only `A` or `B` makes it go away: "
        '`disabled_optimizers=["A"]` of `InferenceSession` or '
        '`disabled_optimizers=["B"]` of `InferenceSession`.',
    ),
    "one with another that others can stand in for": (
        PassSet(("A", "B"), "all", 2, cures=("B",)),
        'Disabling only `B` makes it go away: `disabled_optimizers=["B"]` of `InferenceSession`. '
        "It takes `A`, or what does the same, as well.",
    ),
    "none alone": (
        PassSet(("A", "B"), "all", 2),
        "It shows with only `A` and `B` enabled, but disabling no single pass makes it go away.",
    ),
    "nothing that can be disabled": (
        PassSet((), "all", 2, beyond_passes=True),
        "Disabling every pass that can be disabled by name does not make it go away.",
    ),
}


@pytest.mark.parametrize("name", ADVICE)
def test_advice_claims_no_more_than_was_seen(name):
    found, text = ADVICE[name]
    assert advice(found, DISABLED_BY) == text


# Reducing into a folder: what stands there when a script cannot be written


class Notes:
    """A progress display that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def status(self, text: str) -> None:
        pass

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_a_reduction_whose_script_cannot_be_written_is_kept(tmp_path, monkeypatch):
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
