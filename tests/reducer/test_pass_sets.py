"""The passes that a failure takes: searched for in the installed onnxruntime, and in an optimiser made up."""

import math
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.case import Case
from corpus.values import Value
from oracles import ort_passes as ort
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.verdict import Config, Outcome, Phase, Run, Status, Symptom, Verdict
from reducer.api import reduce_case
from reducer.course import Options
from reducer.pass_sets import PassSet, find_pass_set
from tests.reducer.driving import ORT, case_of, model_of

MINIMUM = np.iinfo(np.int32).min

ONNXRUNTIME = find_backend("ort")


@dataclass(frozen=True)
class Row:
    """A graph, its inputs, and what is to be found."""

    graph: str
    inputs: dict[str, Value]
    minimal: set[str]
    """Each of which cures it, too."""

    @property
    def case(self) -> Case:
        return case_of(model_of(self.graph), self.inputs)


FAILURES = {
    "a rule that throws": Row(
        """g (double[3] x) => (double[3] y) <double low = {0.5}> {
            r = Relu(x) y = Clip(r, low) }""",
        {"x": np.array([-1.0, 0.5, 2.0])},
        {"FuseReluClip"},
    ),
    "a rule that is wrong for integers": Row(
        """g (int32[3] x, int32[3] z) => (int32[3] y) <int32[1] one = {1}> {
            q = Div(one, x) y = Mul(q, z) }""",
        {"x": np.array([2, 3, 4], np.int32), "z": np.array([10, 20, 30], np.int32)},
        {"DivMulFusion"},
    ),
    "a rule that needs another one first": Row(
        """g (int32[3] x, int32[3] z) => (int32[3] y) <int32[1] one = {1}> {
            q = Div(one, x) c = Cast <to = 6> (q) y = Mul(c, z) }""",
        {"x": np.array([2, 3, 4], np.int32), "z": np.array([10, 20, 30], np.int32)},
        {"CastElimination", "DivMulFusion"},
    ),
    "a kernel that dies": Row(
        "g (int32[2] x, int32[2] z) => (int32[2] y) { y = Mod(x, z) }",
        {"x": np.array([MINIMUM, 7], np.int32), "z": np.array([-1, 2], np.int32)},
        set(),
    ),
}
EITHER = Row(
    """g (double[3] x) => (double[3] y) <double low = {0.5}> {
        r = Relu(x) c = Cast <to = 11> (low) y = Clip(r, c) }""",
    {"x": np.array([-1.0, 0.5, 2.0])},
    {"FuseReluClip"},
)


def search(judge: Judge, case: Case) -> PassSet:
    verdict = judge.verdict(case)
    if not verdict.is_bug:
        pytest.skip("the installed onnxruntime does not show the bug")
    found = find_pass_set(judge, case, verdict)
    assert found is not None
    return found


@pytest.mark.parametrize("name", FAILURES)
def test_the_set_holds_what_the_failure_takes(judge, name):
    row = FAILURES[name]
    found = search(judge, row.case)
    assert set(found.minimal) == row.minimal
    assert set(found.cures) == row.minimal
    assert found.unique
    assert not found.beyond_passes
    assert found.checks + 1 <= bound(len(found.minimal), len(ort.OPTIMIZERS))


def test_the_set_is_not_unique_where_another_pass_does_as_well(judge):
    found = search(judge, EITHER.case)
    assert EITHER.minimal < set(found.minimal) <= {"FuseReluClip", "CastElimination", "ConstantFolding"}
    assert set(found.cures) == EITHER.minimal
    assert not found.unique


def test_a_reduction_ends_with_the_passes_and_its_signature_names_them(tmp_path):
    row = FAILURES["a rule that needs another one first"]
    done = reduce_case(row.case, tmp_path / "out", Options())
    assert done.verdict is not None
    assert done.to_json()["passes"] == ["DivMulFusion"]
    assert done.to_json()["passes_unique"] is True
    assert done.to_json()["pass_checks"] > 0
    assert dict(done.signature.components)["passes"] == "DivMulFusion"


# What the log tells


def test_every_pass_of_the_installed_release_can_be_disabled_by_a_name_of_ours(judge):
    case = case_of(model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }"))
    full = judge.configs[1]
    everything, nothing = judge.runs(
        case, (full, ort.DISABLING.without(full, ort.OPTIMIZERS)), collect_log=True
    )
    assert {name for name, _ in ort.applied(everything)} > set(ort.RULES)
    assert {name for name, _ in ort.applied(nothing)} <= {*ort.ALWAYS, "EnsureUniqueDQForNodeUnit"}


# The search itself, with an optimiser made up


@dataclass
class _Made:
    """A judge whose failure takes a given set of passes; every one of `fired` has changed the program."""

    fired: tuple[str, ...]
    needed: frozenset[str]
    beyond: bool = False
    message: str = ""
    side: str = "optimised"
    backend: Any = ONNXRUNTIME
    asked: int = 0
    tolerance: Tolerance = field(default_factory=Tolerance)
    target: Any = ORT

    def __post_init__(self) -> None:
        self.configs = self.backend.configs(ORT)

    def runs(self, case: Case, configs: tuple[Config, ...], **options: object) -> tuple[Run, ...]:
        lines = tuple(f"GraphTransformer {name} modified: 1 with status: OK" for name in self.fired)
        return tuple(Run(config, Status.OK, Phase.EXECUTE, log=lines) for config in configs)

    def verdict(self, case: Case, *, only: Config | None = None) -> Verdict:
        self.asked += 1
        config = only or self.configs[-1]
        disabled = frozenset(cast(tuple[str, ...], config.get("disabled_optimizers") or ()))
        baseline = Run(self.configs[0], Status.OK, Phase.EXECUTE)
        if not self.beyond and disabled & self.needed:
            return Verdict(Outcome.PASS, Phase.COMPARE, "passes", runs=(baseline,))
        failed = Run(config, Status.EXCEPTION, Phase.OPTIMISE, message=self.message)
        symptom = Symptom(Outcome.EXCEPTION, Phase.OPTIMISE, "Fail", side=self.side)
        return Verdict(Outcome.EXCEPTION, Phase.OPTIMISE, "fails", symptom, (baseline, failed))


def found_by(made: _Made) -> PassSet:
    case = FAILURES["a rule that throws"].case
    judge = cast(Judge, made)
    found = find_pass_set(judge, case, judge.verdict(case))
    assert found.checks + 1 == made.asked
    return found


def bound(needed: int, fired: int) -> int:
    return int(2 * needed * math.log2(fired) + 2) if needed else 2


@given(st.integers(1, 60), st.data())
@settings(max_examples=150)
def test_any_set_is_found_within_the_bound(count, data):
    fired = tuple(f"P{at:02}" for at in range(count))
    needed = data.draw(st.sets(st.sampled_from(fired), min_size=1, max_size=min(4, count)))
    found = found_by(_Made(fired, frozenset(needed)))
    assert set(found.minimal) == needed
    assert set(found.cures) == needed
    assert found.checks + 1 <= bound(len(needed), count)


def test_a_pass_that_the_message_names_is_tried_first_and_a_wrong_hint_costs_one_check():
    fired = tuple(f"P{at:02}" for at in range(64))
    right, none, wrong = (
        found_by(_Made(fired, frozenset({"P40"}), message=message))
        for message in ("P40::Apply: unexpected type", "", "P41::Apply: unexpected type")
    )
    assert right.minimal == none.minimal == wrong.minimal == ("P40",)
    assert (right.checks, wrong.checks) == (2, none.checks + 1)


@pytest.mark.parametrize("side", ["", "un-optimised"])
def test_what_shows_without_optimisation_takes_no_pass_and_no_check(side):
    found = found_by(_Made(("A", "B"), frozenset("A"), side=side))
    assert found.minimal == ()
    assert found.checks == 0
    assert found.unique
    assert not found.beyond_passes


@pytest.mark.parametrize("fired", [(), ("A",), ("A", "B", "C")], ids=len)
def test_what_shows_with_every_pass_disabled_is_said_to(fired):
    found = found_by(_Made(fired, frozenset(), beyond=True))
    assert found.minimal == ()
    assert found.beyond_passes


def test_a_pass_that_the_log_does_not_name_is_found_all_the_same():
    found = found_by(_Made(("A", "B", "C"), frozenset({"ConstantFolding"})))
    assert found.minimal == ("ConstantFolding",)
    assert found.unique
