"""The regression corpus shows what it says, and a difference is told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from corpus.formats.onnx import parse
from corpus.onnx.check import checker_complaint
from corpus.regression import FOLDER, Regression, load_regressions
from triage.cli import run

CASES = list(load_regressions())


def _is_of_torch(regression: Regression) -> bool:
    """Return whether a case takes torch, which takes ten CPU seconds to start."""
    return regression.case.target is not None and regression.case.target.backend == "torch-onnx"


@pytest.mark.parametrize("regression", CASES, ids=lambda regression: regression.name)
def test_every_case_of_the_corpus_is_small_and_sound(regression: Regression) -> None:
    if regression.case.format == "onnx":
        assert checker_complaint(parse(regression.case.program)) is None
    assert regression.case.measure.nodes <= 9  # the longest pattern of a fusion that is in the corpus
    assert regression.title
    assert regression.shown


@pytest.mark.parametrize(
    "cases",
    [
        [each for each in CASES if not _is_of_torch(each)],
        pytest.param([each for each in CASES if _is_of_torch(each)], marks=pytest.mark.slow),
    ],
    ids=["without torch", "torch"],
)
def test_the_installed_release_shows_what_the_corpus_says_of_it(
    cases: list[Regression], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "replay.xml"
    folders = [str(FOLDER / each.name) for each in cases]
    assert run(["replay", *folders, "--json", "--junit", str(report)]) == 0
    documents = json.loads(capsys.readouterr().out)
    documents = documents if isinstance(documents, list) else [documents]
    assert [each["case"] for each in documents] == [regression.name for regression in cases]
    assert [each["case"] for each in documents if each["status"] == "differs"] == []
    suite = ElementTree.parse(report).getroot()
    assert suite.get("tests") == str(len(cases))
    assert suite.get("failures") == "0"


def test_a_case_that_shows_something_else_is_a_difference_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mended"
    shutil.copytree(FOLDER / "relu-clip-not-float", folder)
    expected = folder / "expected.json"
    facts = json.loads(expected.read_text(encoding="utf-8"))
    facts["shown"] = {release: ["pass", "compare", ""] for release in facts["shown"]}
    expected.write_text(json.dumps(facts), encoding="utf-8")
    assert run(["replay", str(folder), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["status"] == "differs"


def test_a_folder_without_an_expectation_is_the_users_to_mend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "case"
    shutil.copytree(FOLDER / "relu-clip-not-float", folder)
    (folder / "expected.json").unlink()
    assert run(["replay", str(folder)]) == 2
    assert "replay --record" in capsys.readouterr().err
    assert run(["replay", "--record", str(folder)]) == 0
    assert (folder / "expected.json").is_file()
