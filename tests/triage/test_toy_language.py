"""A language is what its folders say: a toy one goes from generation to a report by these alone."""

from collections.abc import Iterator

import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.load import open_case
from corpus.target import Target
from generators.mixture import Plan, make_cases
from oracles.judge import Judge
from oracles.verdict import Outcome
from reducer.api import reduce_case
from reducer.options import Options
from tests.triage.toy_language import installed
from triage.bugs.history import History
from triage.language import list_case
from triage.reports.report import write_report

TOY = Target("toy")


@pytest.fixture(autouse=True, scope="module")
def toy() -> Iterator[None]:
    with installed():
        yield


def test_a_generated_program_is_judged_reduced_and_reported(tmp_path):
    cases = list(make_cases(Plan(strategy="toy", nodes=8), range(48)))
    with Judge(TOY) as judge:
        verdicts = [judge.verdict(case) for case in cases]
        assert {verdict.outcome for verdict in verdicts} == {Outcome.PASS, Outcome.MISMATCH}
        failing = next(case for case, each in zip(cases, verdicts, strict=True) if each.is_bug)
        least = reduce_case(failing, tmp_path / "least", Options(target=TOY))
        assert [line.op for line in least.case.parsed.lines] == ["neg", "abs"]
        assert least.is_minimal
        assert least.signature is not None
        assert ("ops", "neg abs") in least.signature.components
        report = write_report(least.case, judge, tmp_path / "report", History())
    assert report.ready, report.missing
    issue = (tmp_path / "report" / "issue.md").read_text()
    assert list_case(least.case).strip() in issue
    assert issue.startswith("# [neg + abs] -3 instead of 3 with fast, not plain")


def test_a_case_of_it_is_saved_and_opened_as_any_other(tmp_path):
    (case,) = make_cases(Plan(strategy="toy", nodes=3), range(1))
    case.save(tmp_path / "case")
    assert Case.load(tmp_path / "case").case_id == case.case_id
    assert open_case(tmp_path / "case" / find_format("toy").program_file).format == "toy"


def test_a_compiler_that_does_not_run_it_is_a_users_mistake():
    with pytest.raises(UserError, match="target ort: runs no toy programs; choose another, such as toy"):
        Judge(Target("ort"), format="toy")
