"""A case's program is parsed once, and nobody who asks a case about itself changes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import Target
from generators.mixture import Plan, make_cases
from oracles.judge import Judge
from oracles.naming.components import signature
from oracles.naming.names import names_of_case
from triage.language import language_of, list_case
from triage.pages.differences import describe_differences
from triage.views.drawn import drawn

REGRESSIONS = Path(__file__).parents[2] / "corpus/regressions"


def bytes_of(case: Case) -> bytes:
    """The parsed program as bytes again."""
    parsed = case.parsed
    return bytes(parsed.SerializeToString(deterministic=True))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_what_is_asked_of_a_case_leaves_its_parsed_program_as_it_is(seed: int) -> None:
    (case,) = make_cases(Plan(strategy="random", sequences=False), range(seed, seed + 1))
    before = bytes_of(case)
    assert case.parsed is case.parsed
    assert case.measure.nodes >= 0
    assert case.canonical_hash
    list_case(case)
    drawn(case)
    describe_differences(case, case)
    language_of(case.format).without_remarks(case)
    assert bytes_of(case) == before


def test_bytes_that_are_no_program_are_the_users_mistake() -> None:
    with pytest.raises(UserError):
        _ = Case("onnx", b"\xff\xff", {}, None).parsed


@pytest.mark.parametrize("name", ["pad-into-maxpool-negative", "lstm-batch-0", "relu-clip-not-float"])
def test_judging_and_naming_leave_the_parsed_program_as_it_is(name: str) -> None:
    target = Target("ort")
    case = replace(Case.load(REGRESSIONS / name), target=target)
    before = bytes_of(case)
    with Judge(target) as judge:
        verdict = judge.verdict(case)
        if verdict.is_bug:
            judge.explain(case, verdict)
            signature(verdict, case.measure, case)
    names_of_case(case)
    assert bytes_of(case) == before
