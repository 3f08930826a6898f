"""What costs no check: where the framework stopped, what runs un-optimised; what is given up, and said."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnx
import pytest

from corpus.target import Target
from corpus.values import Tensor
from oracles.judge import Judge
from oracles.numerics.compare import Tolerance
from oracles.probes.record import record
from oracles.verdict import Config, Outcome, Phase, Run, Status, Symptom, Verdict
from reducer.api import reduce_case
from reducer.course import Options
from reducer.engine.predicates import Bounds, JudgePool, PlainRuns
from reducer.move import Hints, needed_operator, read_hints
from reducer.moves.named_nodes import above
from reducer.moves.names import renamed
from reducer.result import covered, kept_nodes
from reducer.subject.onnx.divergence import find_divergence
from reducer.subject.onnx.nodesets import keep_nodes
from reducer.subject.onnx.subject import OnnxSubject
from tests.helpers.planting import plant_fault, reversed_operands
from tests.reducer.driving import ORT, case_of, drive, find_move, model_of, subject_of

CHAIN = "g (float[4] x) => (float[4] y) { a = Neg(x) b = Abs(a) c = Exp(b) d = Sqrt(c) y = Neg(d) }"


def stopped(at: str, message: str) -> Verdict:
    run = Run(Config("default"), Status.EXCEPTION, Phase.IMPORT, error="TypeError", at=at)
    symptom = Symptom(Outcome.EXCEPTION, Phase.IMPORT, "TypeError", message=message)
    return Verdict(Outcome.EXCEPTION, Phase.IMPORT, "fails", symptom, (run,))


def test_the_node_at_which_the_framework_stopped_is_the_evidence(judge):
    subject = subject_of(judge, case_of(model_of(CHAIN)))
    verdict = stopped("c", "Exp: does not know 'd'")
    hints = read_hints(verdict)
    assert (hints.stopped_at, hints.nodes) == ("c", ("c",))
    assert needed_operator(verdict, subject) == "Exp"
    assert not needed_operator(stopped("c", "some other words"), subject)
    assert not needed_operator(stopped("gone", "Exp: …"), subject)


def test_what_leads_to_it_is_kept_by_the_fewest_steps(judge):
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


DIMS = {"v8": ["2"], **dict.fromkeys(f"v{i}" for i in range(9, 20)), "w": ["n // 2"]}


def test_what_leads_to_it_without_known_dims_is_kept_and_cut_with_the_dims_that_were_known(judge):
    nodes = " ".join(f"v{i + 1} = {f'Add(v{i}, w)' if i == 8 else f'Neg(v{i})'}" for i in range(30))
    text = f"g (float[2] v0, float[2] x) => (float[2] v30) {{ w = Abs(x) {nodes} }}"
    subject = subject_of(judge, case_of(model_of(text)))
    hints = Hints(nodes=("v20",), stopped_at="v20", dims=DIMS)

    def is_unknown(model: onnx.ModelProto, inputs: object) -> bool:
        dims = {info.name: info.type.tensor_type.shape.dim[0] for info in model.graph.input}
        return "w" in dims and dims["w"].dim_param != "" and dims["v8"].dim_value == 2

    found = drive(find_move("keep the nodes that the evidence names"), subject, is_unknown, hints)
    assert [node.output[0] for node in found.subject.nodes] == [f"v{i}" for i in range(9, 21)]
    assert found.asked == 1
    refused = drive(find_move("keep the nodes that the evidence names"), subject, lambda *_: False, hints)
    assert refused.asked == 4, "all of them, then 16, 32 and 64 steps: no fewer reach what has dims"


def test_a_node_that_gives_other_dims_is_bypassed_where_no_value_is_looked_at(judge):
    text = "g (float[2,3] x) => (int64[2] y) { a = Neg(x) b = Transpose(a) y = Shape(b) }"
    subject = subject_of(judge, case_of(model_of(text)))
    move = find_move("size anew what sizes are computed from")
    found = drive(move, subject, lambda *_: True, Hints(stopped_at="y"))
    assert [node.op_type for node in found.subject.nodes] == ["Neg", "Shape"]
    assert not drive(move, subject, lambda *_: True).asked


def test_a_candidate_that_does_not_run_is_not_asked_for(judge):
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


def test_what_is_called_minimal_says_what_was_asked(tmp_path):
    text = "g (float[3] x) => (float[3] y) { a = Neg(x) b = Abs(a) c = Exp(b) y = Neg(c) }"
    case = case_of(model_of(text), {"x": np.ones(3, np.float32)})
    options = Options(target=Target("ort"), check="grep -q Exp {} && grep -q Abs {}", thorough=True)
    done = reduce_case(case, tmp_path / "out", options)
    assert [node.op_type for node in done.case.parsed.graph.node] == ["Abs", "Exp"]
    assert "2 of the 2 smaller sets" in done.covers
    assert done.is_minimal_in_full
    assert not replace(done, subsets=(1, 2)).is_minimal_in_full
    assert not replace(done, cut_short=("shrink dims",)).is_minimal_in_full
    assert covered(True, ("shrink dims",), (2, 6)).endswith("not asked to the end: shrink dims")
    assert sum(each.asked for each in done.asked.values()) + 1 + done.confirmations == done.checks


# Where an optimised program parts from its original, told by the values of both


ORIGINAL = (
    "g (float[3] x) => (float[3] y) <float[3] w = {1,2,4}> {"
    " a = Neg (x) b = Div (a, w) c = Erf (b) d = Mul (c, w) e = Exp (d) y = Abs (e) }"
)


def part(judge: Judge, original: str, optimised: str) -> tuple[str, ...]:
    inputs: Mapping[str, Tensor] = {"x": np.array([1, -2, 3], np.float32)}
    case, other = case_of(model_of(original), inputs), case_of(model_of(optimised), inputs)
    values = record(judge.executor, other).values
    return find_divergence(subject_of(judge, case), model_of(optimised), values, Tolerance())


@pytest.mark.parametrize(
    ("optimised", "expected"),
    {
        "nothing is wrong": (ORIGINAL, ()),
        "a node gone wrong": (ORIGINAL.replace("Erf", "Tanh"), ("c",)),
        "several nodes became one": (
            ORIGINAL.replace("b = Div (a, w) c = Erf (b) d = Mul (c, w)", "d = Erf (a)"),
            ("b", "c", "d"),
        ),
        "what only the optimised program has is seen through": (
            ORIGINAL.replace("b = Div (a, w) c = Erf (b)", "t = Erf (a) u = Identity (t) c = Identity (u)"),
            ("b", "c"),
        ),
        "a folded constant under another name is no change": (
            ORIGINAL.replace("w = {1,2,4}", "v = {1,2,4}").replace(", w)", ", v)").replace("Exp", "Sin"),
            ("e",),
        ),
    }.values(),
)
def test_a_parting_names_what_was_rewritten(judge, optimised, expected):
    assert part(judge, ORIGINAL, optimised) == expected


def test_what_is_wrong_within_the_tolerance_is_named_where_that_grows(judge):
    grows = (
        "g (float[3] x) => (float[3] y) <float[3] w = {2,2,2}, float[1] k = {1.009}> {"
        " a = Mul (x, w) b = Neg (a) c = Identity (b) d = Exp (c) y = Abs (d) }"
    )
    rewritten = grows.replace("b = Neg (a)", "t = Neg (a) b = Mul (t, k)")
    assert part(judge, grows, rewritten) == ("b",)


# Which nodes of an original are left is told by the names of what they compute, through renaming


FIVE_NODES = "g (float[2] x) => (float[2] e) { a = Neg(x) b = Abs(a) c = Exp(b) d = Neg(c) e = Abs(d) }"
BRANCHES = """g (float[2] x, bool i) => (float[2] z) {
    a = Neg(x)
    y = If(i) <
        then_branch = t () => (float[2] r) { q = Abs(a) r = Exp(q) },
        else_branch = e () => (float[2] s) { q = Exp(a) s = Abs(q) }
    >
    z = Neg(y)
}"""


@pytest.mark.parametrize("keep", [{0, 1, 2, 3, 4}, {1, 2}])
def test_nodes_are_traced_through_renaming_and_cuts(judge, keep):
    original = subject_of(judge, case_of(model_of(FIVE_NODES)))
    cut = keep_nodes(renamed(original), frozenset(keep))
    assert cut is not None
    assert kept_nodes(original.model, renamed(cut)) == tuple(sorted(keep))


def test_what_was_unfolded_counts_for_the_node_that_held_it(judge):
    original = subject_of(judge, case_of(model_of(BRANCHES)))
    assert kept_nodes(original.model, keep_nodes(original, frozenset({1}))) == (1,)
    unfolded = drive(find_move("unfold control flow"), original, lambda model, inputs: True).subject
    assert all(node.op_type != "If" for node in unfolded.nodes)
    assert kept_nodes(original.model, renamed(unfolded)) == (0, 1, 2)


# A wrong node whose NaN shows only further down is left alone, by other values


@pytest.fixture
def swapping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    """A judge whose optimiser swaps the operands of Pow."""
    with Judge(ORT) as judge:
        plant_fault(judge, monkeypatch, "Pow", reversed_operands)
        yield judge


def test_a_wrong_node_whose_nan_shows_further_down_stands_alone(swapping, tmp_path):
    text = (
        "g (float[1] a, float[1] b, float[1] z) => (float[1] y)"
        " { p = Pow(a, b) r = Reciprocal(p) n = Neg(r) y = Mul(n, z) }"
    )
    given = {"a": np.float32([1]), "b": np.float32([0]), "z": np.float32([0])}
    case = case_of(model_of(text), given)
    assert str(swapping.verdict(case).symptom) == "mismatch | compare | nan | optimised"
    reduce_case(case, tmp_path / "out", Options(target=ORT), judge=swapping)
    (node,) = onnx.load(tmp_path / "out" / "model.onnx").graph.node
    assert node.op_type == "Pow"
