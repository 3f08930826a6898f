"""One case on several targets: who stands alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from corpus.target import Target
from oracles.numerics.compare import Tolerance
from oracles.run import Phase
from oracles.verdict import Outcome, Verdict
from triage.cases.sides import Side, alone
from triage.cli import run

CASE = "corpus/regressions/relu-clip-not-float"


def side(name: str, value: float | None, outcome: Outcome = Outcome.PASS) -> Side:
    """A target that gives one number, or nothing."""
    outputs = None if value is None else {"y": np.array([value], np.float64)}
    return Side(Target(name), Verdict(outcome, Phase.COMPARE, ""), outputs)


@pytest.mark.parametrize(
    ("values", "lonely"),
    [
        ((1, 1, 1), None),
        ((1, 1, 2), "c"),
        ((1, 2, 1), "b"),
        ((None, 1, 1), "a"),
        ((None, None, 1), "c"),
        ((1, 2, 3), None),  # nobody agrees with anybody
        ((1, 2), None),  # two have no majority
        ((1, 1.0001, 1), None),  # within the tolerance
        ((1, 1, 2, 2), None),
        ((1, 1, 1, 2), "d"),
    ],
)
def test_one_stands_alone_if_all_others_agree(values: tuple[float | None, ...], lonely: str | None) -> None:
    sides = [side(name, value) for name, value in zip("abcd", values, strict=False)]
    found = alone(sides, Tolerance())
    assert (found and found.target.backend) == lonely


def test_a_target_that_lacks_the_operator_says_nothing() -> None:
    assert not side("a", None, Outcome.UNSUPPORTED).says
    assert side("a", None, Outcome.CRASH).says


def test_the_target_with_the_bug_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", CASE, "--targets", "torch,ort,reference", "--json"]) == 1
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["alone"] == "ort"
    assert [each["outcome"] for each in found["targets"]] == ["pass", "exception", "pass"]
    assert found["outcome"] == "exception"
    assert f"next: crux reduce {CASE} --target ort -o crux-small" in captured.err


@pytest.mark.parametrize("words", [["--targets", "ort"], ["--targets", "ort,tvm", "--target", "ort"]])
def test_targets_are_several_and_named_once(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", CASE, *words]) == 2
    assert "--targets" in capsys.readouterr().err


def test_targets_that_agree_are_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", CASE, "--targets", "torch,reference", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["alone"] == ""
