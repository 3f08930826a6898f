"""What costs no check: where the framework stopped, what runs un-optimised; what is given up, and said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus.target import Target
from oracles.judge import Judge
from oracles.run import Config, Phase, Run, Status
from oracles.verdict import Outcome, Symptom, Verdict
from reducer.api import reduce_case
from reducer.engine.estimates import AGAIN, MARGIN, MEASURED, patience
from reducer.engine.predicates import JudgePool
from reducer.evidence import needed_operator, read_hints
from reducer.move import Hints
from reducer.moves import all_moves
from reducer.moves.exhaust_small import proposals, subsets
from reducer.moves.named_nodes import above
from reducer.options import Options
from reducer.result import covered
from reducer.session import Bounds, PlainRuns
from reducer.subject.onnx.subject import OnnxSubject
from tests.reducer.driving import ORT, case_of, drive, find_move, model_of, subject_of

CHAIN = "g (float[4] x) => (float[4] y) { a = Neg(x) b = Abs(a) c = Exp(b) d = Sqrt(c) y = Neg(d) }"


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(ORT) as made:
        yield made


def stopped(at: str, message: str) -> Verdict:
    run = Run(Config("default"), Status.EXCEPTION, Phase.IMPORT, error="TypeError", at=at)
    symptom = Symptom(Outcome.EXCEPTION, Phase.IMPORT, "TypeError", message=message)
    return Verdict(Outcome.EXCEPTION, Phase.IMPORT, "fails", symptom, (run,))


def test_the_node_at_which_the_framework_stopped_is_the_evidence(judge: Judge) -> None:
    subject = subject_of(judge, case_of(model_of(CHAIN)))
    verdict = stopped("c", "Exp: does not know 'd'")
    hints = read_hints(verdict)
    assert (hints.stopped_at, hints.nodes) == ("c", ("c",))
    assert needed_operator(verdict, subject) == "Exp"
    assert not needed_operator(stopped("c", "some other words"), subject)
    assert not needed_operator(stopped("gone", "Exp: …"), subject)


def test_what_leads_to_it_is_kept_by_the_fewest_steps(judge: Judge) -> None:
    nodes = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(30))
    subject = subject_of(judge, case_of(model_of(f"g (float[2] v0) => (float[2] v30) {{ {nodes} }}")))
    assert above(subject, frozenset([9]), 2) == {7, 8, 9}
    move = find_move("keep the nodes that the evidence names")
    found = drive(
        move,
        subject,
        lambda model, inputs: {"v16", "v20"} <= {node.output[0] for node in model.graph.node},
        Hints(nodes=("v20",), stopped_at="v20"),
    )
    assert [node.output[0] for node in found.subject.nodes] == [f"v{i}" for i in range(16, 21)]
    assert found.asked == 5, "0, 1, 2, 4 and 3 steps"


def test_a_candidate_that_does_not_run_is_not_asked_for(judge: Judge) -> None:
    weights = "int64[2] two = {2, 3}, int64[2] four = {4, 5}"
    text = f"g (float[6] x) => (float[a,b] y) <{weights}> {{ y = Reshape(x, two) }}"
    case = case_of(model_of(text))
    pool = JudgePool(lambda: Judge(ORT), judge)
    plain = PlainRuns(pool, case)
    good = subject_of(judge, case)
    broken = OnnxSubject(model_of(text.replace("x, two", "x, four")), inputs=case.inputs)
    assert plain.ends_well(good)
    assert plain.accepts(good)
    assert not plain.accepts(broken)
    assert Bounds("Reshape", plain).hold(good)
    assert not Bounds("Concat").hold(good), "the operator that fails is gone"
    assert Bounds().hold(broken)
    pool.close()


def test_patience_is_what_was_measured_and_less_after_a_search_in_vain() -> None:
    moves = {move.name: move for move in all_moves(OnnxSubject)}
    assert MEASURED.keys() <= moves.keys()
    for name, known in MEASURED.items():
        assert patience(moves[name], was_fruitless=False) == known.run + MARGIN
        assert patience(moves[name], was_fruitless=True) == max(1, (known.run + MARGIN) // AGAIN)
    assert patience(moves["drop single nodes by link"], was_fruitless=True) is None


def test_a_subset_is_looked_at_with_every_choice_of_what_it_reads(judge: Judge) -> None:
    text = "g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Add(b, a) }"
    subject = subject_of(judge, case_of(model_of(text)))
    assert sorted(map(sorted, subsets(subject))) == [[0], [0, 1], [0, 2], [1], [1, 2], [2]]
    found = [proposal() for proposal in proposals(subject, frozenset([0, 2]))]
    ways = [
        (len(each.graph_inputs), len(each.initializers), list(each.nodes[-1].input))
        for each in found
        if each is not None
    ]
    assert ways == [(2, 0, ["b", "a"]), (1, 1, ["b", "a"]), (1, 0, ["a", "a"])]


def test_what_is_called_minimal_says_what_was_asked(tmp_path: Path) -> None:
    assert covered(False, (), (0, 0)) == ""
    assert (
        covered(True, (), (6, 6)) == "no single node can go; 6 of the 6 smaller sets of its nodes do not fail"
    )
    assert covered(True, ("shrink dims",), (2, 6)).endswith(
        "2 of the 6 smaller sets of its nodes do not fail, the others were not asked; "
        "not asked to the end: shrink dims"
    )
    text = "g (float[3] x) => (float[3] y) { a = Neg(x) b = Abs(a) c = Exp(b) y = Neg(c) }"
    case = case_of(model_of(text), {"x": np.ones(3, np.float32)})
    options = Options(target=Target("ort"), check="grep -q Exp {} && grep -q Abs {}", thorough=True)
    done = reduce_case(case, tmp_path / "out", options)
    assert [node.op_type for node in done.case.parsed.graph.node] == ["Abs", "Exp"]
    assert done.covers == "no single node can go; 2 of the 2 smaller sets of its nodes do not fail"
    assert done.is_minimal_in_full
    assert not replace(done, subsets=(1, 2)).is_minimal_in_full
    assert not replace(done, cut_short=("shrink dims",)).is_minimal_in_full
    assert sum(each.asked for each in done.asked.values()) + 1 + done.confirmations == done.checks
