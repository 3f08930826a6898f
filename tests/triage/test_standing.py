"""Every list of bugs counts them alike and says what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracles.naming.signature import Signature
from triage.bugs.overview import counted, next_step, state_of
from triage.pages.bugs import row_of, totals_of

DATABASE = Path("crux.db")


def bug(name: str = "C0001", state: str = "new", report: str = "") -> dict[str, str]:
    return {"id": name, "state": state, "report": report}


@pytest.mark.parametrize(
    ("status", "known", "reduced", "ready", "state"),
    [
        ("new", "", 0, False, "not reduced"),
        ("new", "", 1, False, "new"),
        ("new", "", 1, True, "ready"),
        ("new", "an-issue", 1, True, "known"),
        ("regressed", "an-issue", 1, True, "regressed"),
        ("wontfix", "", 0, False, "wontfix"),
    ],
)
def test_what_a_person_decided_goes_before_what_is_known_and_that_before_what_is_done(
    status, known, reduced, ready, state
):
    assert state_of({"status": status, "known": known, "reduced": reduced}, ready) == state


def test_a_count_names_what_there_is_in_the_order_in_which_to_look():
    states = ["known", *["not reduced"] * 6, *["ready"] * 5, "known", "fixed"]
    assert counted(states) == "14 bugs: 5 new and ready, 2 known, 6 not reduced yet, 1 fixed"
    assert counted(["new"]) == "1 bug: 1 new"
    assert counted([]) == "0 bugs"
    assert [(each.state, each.count) for each in totals_of(["known", "new"])] == [("new", 1), ("known", 1)]


@pytest.mark.parametrize(
    ("bugs", "step"),
    [
        ([], "crux hunt"),
        ([bug(state="not reduced"), bug()], "crux reduce --all"),
        ([bug(), bug("C0002")], "crux report C0001 C0002"),
        ([bug(state="regressed", report="r/C0001")], "crux hunt"),
        (
            [bug(state="ready", report="r/C0001")],
            "file r/C0001/issue.md, then: crux triage mark C0001 filed URL",
        ),
        ([bug(state="known")], "crux hunt"),
    ],
)
def test_the_next_step_is_the_first_thing_left_to_do(bugs, step):
    assert next_step(bugs, DATABASE) == step


def test_another_database_is_part_of_the_command():
    assert next_step([bug()], Path("other.db")) == "crux report C0001 --db other.db"


@pytest.mark.parametrize(
    ("components", "part", "blame"),
    [
        ((("passes", "DivMulFusion"),), "pass", "DivMulFusion"),
        (
            (
                ("phase", "optimise"),
                ("side", "optimised"),
                ("site", "relu_clip_fusion.cc FuseReluClip::Apply"),
            ),
            "pass",
            "FuseReluClip",
        ),
        (
            (("phase", "optimise"), ("side", "optimised"), ("site", "matmul.cc MatMul::MatMul")),
            "kernel",
            "MatMul",
        ),
        (
            (
                ("phase", "execute"),
                ("side", "optimised"),
                ("site", "pool.cc onnxruntime::Pool<float>::Compute"),
            ),
            "kernel",
            "Pool",
        ),
        ((("phase", "import"), ("site", "_convert_clip")), "importer", "_convert_clip"),
        ((("phase", "import"), ("site", "onnxruntime.py run"), ("op", "Sub")), "importer", "Sub"),
        ((("phase", "optimise"), ("ops", "Cast MatMul")), "optimiser", "Cast MatMul"),
        ((("phase", "compare"), ("ops", "com.microsoft:Scan:int16")), "kernel", "com.microsoft:Scan"),
        ((("phase", "execute"), ("site", "Reduction")), "kernel", "Reduction"),
    ],
)
def test_a_part_of_the_compiler_is_to_blame(components, part, blame):
    facts = {"id": "C0001", "state": "new", "failures": [{"outcome": "exception"}]}
    row = row_of(facts, [Signature.of(*components)])
    assert (row.kind, row.part, row.blame, row.step) == ("refusal", part, blame, "crux report C0001")
