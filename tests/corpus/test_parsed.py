"""A case's program is parsed once, and nobody who asks a case about itself changes it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.case import Case
from generators.mixture import Plan, make_cases
from triage.pages.differences import describe_differences
from triage.reports.exhibits import without_remarks
from triage.views.drawn import drawn
from triage.views.listing import list_case


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
    without_remarks(case)
    assert bytes_of(case) == before


def test_bytes_that_are_no_program_are_the_users_mistake() -> None:
    from corpus.errors import UserError

    with pytest.raises(UserError):
        _ = Case("onnx", b"\xff\xff", {}, None).parsed
