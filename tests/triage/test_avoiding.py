"""Leaving out of a campaign what could only show a known issue again."""

from __future__ import annotations

import pytest

from corpus.case import Case
from oracles.verdict import Outcome
from tests.triage.failing import ORT, healthy, model, verdict
from triage.bugs.known import KnownIssue, read_known
from triage.campaigns.testers import avoiding, chains, found_in

ISSUE = KnownIssue("mine", "t", "onnxruntime", {}, fixed="1.40", avoid=("Relu:float.*", "Clip:.*"))


def chain(*operators: str, kind: int = 1) -> Case:
    names = [f"v{at}" for at in range(len(operators) + 1)]
    nodes = [(each, [names[at]], [names[at + 1]]) for at, each in enumerate(operators)]
    made = model(nodes, {names[0]: (kind, [2])}, {names[-1]: (kind, [2])})
    return Case("onnx", made.SerializeToString(), {}, ORT)


@pytest.mark.parametrize(
    ("case", "found"),
    [
        (chain("Relu", "Clip"), "mine"),
        (chain("Neg", "Relu", "Clip", "Abs"), "mine"),
        (chain("Clip", "Relu"), ""),
        (chain("Relu", "Abs", "Clip"), ""),
        (chain("Relu", "Clip", kind=6), ""),
    ],
)
def test_a_chain_is_found_along_the_values_and_with_its_types(case, found):
    assert found_in(case, chains([ISSUE], "ort", "1.31.1")) == found


def test_only_living_issues_of_the_target_are_avoided():
    assert chains([ISSUE], "tvm", "1.31.1") == {}
    assert chains([ISSUE], "ort", "1.40") == {}
    assert list(chains([ISSUE], "ort", "1.39")) == ["mine"]


def test_what_is_avoided_is_not_run():
    def judgement(case, thorough):
        assert case.case_id == healthy().case_id
        return verdict()

    avoid = avoiding(judgement, chains([ISSUE], "ort", "1.31.1"))
    assert avoid(chain("Relu", "Clip"), False).outcome is Outcome.UNSUPPORTED
    assert avoid(healthy(), False).is_bug


def test_a_file_says_what_to_avoid_and_since_when(tmp_path):
    path = tmp_path / "known.toml"
    path.write_text(
        "[a]\ntitle = 't'\npackage = 'onnxruntime'\nsince = '1.20'\nfixed = '1.30'\nsuppress = true\n"
        "avoid = ['Pad:.*']\nmatch = { op = 'x' }\n"
    )
    (issue,) = read_known(path)
    assert [issue.is_alive_on(each) for each in ("1.19.2", "1.20.0", "1.29.1", "1.30.0", "")] == [
        False, True, True, False, True,
    ]  # fmt: skip
    assert issue.suppress
    assert list(chains([issue], "ort", "1.25")) == ["a"]
