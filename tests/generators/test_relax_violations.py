"""Relax programs that are known to be incorrect: one violation each, and what is owed to them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from corpus.case import Case
from corpus.formats import relax
from corpus.graphs.program import Binding, Graph, GraphProgram, Input
from corpus.target import Target
from generators.mixture import Plan, make_cases
from generators.mutations.modes import Mode
from generators.relax.programs import make_program
from generators.relax.violations import violated
from oracles.judge import Judge
from oracles.verdict import REFUSAL, Outcome


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    pytest.importorskip("tvm_ffi", reason="tvm is not installed")
    with Judge(Target.parse("tvm"), format="relax", lower_levels=False) as found:
        yield found


def test_a_broken_program_is_another_one_with_its_violation_named():
    kinds: Counter[str] = Counter()
    for seed in range(120):
        made = make_program(seed, 8)
        case = violated(seed, made)
        if case is None:
            continue
        assert REFUSAL in case.settings
        assert case.program != made.program.to_bytes()
        relax.FORMAT.parse(case.program)
        (note,) = case.notes
        assert "condition" not in note  # TVM promises to refuse none: accepting it is no bug
        kinds[note.removeprefix("violation: ").partition(" of ")[0]] += 1
    assert len(kinds) >= 6
    assert sum(kinds.values()) > 90


def test_a_campaign_breaks_a_share_of_them():
    plan = Plan("relax", Mode.DISRUPTIVE, nodes=6, sequences=False)
    assert sum(REFUSAL in case.settings for case in make_cases(plan, range(32))) > 24


def test_tvm_refuses_what_numpy_refuses_too_and_such_a_case_is_no_bug(judge):
    found = ((seed, violated(seed, make_program(seed, 4))) for seed in range(60))
    seed, case = next((seed, case) for seed, case in found if case)
    assert judge.verdict(case).outcome is Outcome.INVALID, seed


def test_a_result_of_a_program_that_is_incorrect_is_a_bug(judge):
    """A rule for what is generated: this one, which TVM 0.27 takes, is made by hand and promised nowhere."""
    inputs = Input("c", "int64", (1,)), Input("x", "float32", (2,))
    branch = {"graph": {"inputs": [], "bindings": [["t", "relax.exp", [{"ref": "x"}], {}]], "outputs": ["t"]}}
    other = {"graph": {"inputs": [], "bindings": [["u", "relax.abs", [{"ref": "x"}], {}]], "outputs": ["u"]}}
    main = Graph(inputs, (Binding("y", "if", ({"ref": "c"}, branch, other)),), ("y",), {"pure": True})
    program = GraphProgram("relax", main, facts={"main": "main"}).to_bytes()
    feeds = {"c": np.ones(1, "int64"), "x": np.ones(2, "float32")}
    case = Case("relax", program, feeds, settings=(REFUSAL,), notes=("violation: a condition of int64[1]",))
    verdict = judge.verdict(case)
    if verdict.outcome is Outcome.INVALID:
        pytest.skip("the installed release refuses it")
    assert verdict.outcome is Outcome.MISMATCH
    assert verdict.title.startswith("accepted although invalid: an If takes a condition of R.Tensor((1,)")
    # a note is not what makes it a bug: a report has none, and of a reduced program it may not be true
    assert judge.verdict(replace(case, notes=())).symptom == verdict.symptom
