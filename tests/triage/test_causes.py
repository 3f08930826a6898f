"""Faces of one bug stand under their root, and what a known bug explains is not reduced."""

import json
from collections import Counter
from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from corpus.case import Case
from corpus.onnx.graph import walk_nodes
from corpus.target import Target
from oracles.naming import Signature
from oracles.rules.wrong_nodes import _site
from oracles.verdict import Mark, Outcome
from reducer.pass_sets import core_of
from tests.helpers.commands import crux
from tests.helpers.failing import ORT, clip_exception, division_crash, healthy, model, verdict
from tests.helpers.models import model_of
from triage.bugs.failures import mark_explained, record_failure
from triage.bugs.overview import overview
from triage.campaigns.target_campaigns import ReductionBenefit, Worth, worth_of
from triage.causes.consequences import MOST_CHECKS, ended_earlier, find_root
from triage.causes.cores import Site, form_of, share_a_kernel, site_of_crash
from triage.causes.explaining import Bug, by_symptom, explain, may_follow, names_itself
from triage.clustering.similarity import MERGE, compare
from triage.language import language_of
from triage.reductions.explained import Selection, name_reduced, waiting
from triage.reports.limit_request import request_labels, request_title
from triage.store.causes import note_explained
from triage.store.database import Store
from triage.store.failures import UNREDUCIBLE, get_failure

FLOAT = TensorProto.FLOAT
SCALARS = {"x": (FLOAT, []), "y": (FLOAT, [])}
LOST_DIM = [("Div", ["one", "x"], ["d"]), ("Mul", ["d", "y"], ["m"])]
"""DivMulFusion makes y / x of 1 / x * y, and so loses the dim of the constant."""

FACES = {
    "Tile": (("Tile", ["m", "three"], ["z"]), [3]),
    "Concat": (("Concat", ["m", "m"], ["z"], {"axis": 0}), [2]),
    "Softmax": (("Softmax", ["m"], ["z"], {"axis": 0}), [1]),
    "Squeeze": (("Squeeze", ["m", "zero"], ["z"]), []),
}
"""Nodes that stumble over a lost dim, each in its own way."""


def face(operator: str, *, before: int = 0) -> Case:
    """A lost dim of DivMulFusion that shows at another operator, after some nodes that do not matter."""
    node, dims = FACES[operator]
    extra = [("Neg", [f"x{at}" if at else "x0"], [f"x{at + 1}"]) for at in range(before)]
    nodes = [("Identity", ["x"], ["x0"]), *extra, ("Div", ["one", f"x{before}"], ["d"]), LOST_DIM[1], node]
    constants = {
        "one": np.ones(1, np.float32),
        "three": np.array([3], np.int64),
        "zero": np.array([0], np.int64),
    }
    used = {name for each in nodes for name in each[1]}
    made = model(nodes, SCALARS, {"z": (FLOAT, dims)}, {k: v for k, v in constants.items() if k in used})
    inputs = {"x": np.array(2.0, np.float32), "y": np.array(3.0, np.float32)}
    return Case("onnx", made.SerializeToString(), inputs, ORT, origin=f"face:{operator}:{before}")


@pytest.mark.parametrize("operator", sorted(FACES))
def test_a_node_that_stumbles_over_a_lost_dim_is_a_face_of_the_pass_that_lost_it(judge, operator):
    case = face(operator)
    found = find_root(case, judge.verdict(case), ("DivMulFusion",), judge)
    assert "Mul" in found.root.case.measure.ops
    assert operator not in found.root.case.measure.ops
    assert "wrong shape" in found.root.verdict.title
    assert found.checks <= MOST_CHECKS


@pytest.mark.parametrize("case", [clip_exception(), division_crash(3)], ids=["clip", "division"])
def test_what_fails_where_it_stands_is_its_own_root(judge, case):
    found = find_root(case, judge.verdict(case), ("FuseReluClip",), judge)
    assert found.root is None or found.root.case.measure.ops == ("Div",)


def test_a_root_needs_the_same_passes(judge):
    case = face("Tile")
    found = find_root(case, judge.verdict(case), ("ConstantFolding",), judge)
    assert found.root is None


BRANCHES = """
    <ir_version: 10, opset_import: ["" : 17]>
    g (double[1,1] x, bool which) => (double[1,1] y) <double[1] w = {0}> {
        y = If (which) <
            then_branch = one () => (double[1,1] b) { b = Identity (x) },
            else_branch = two () => (double[1,1] n) {
                t = BatchNormalization (x, w, w, w, w)
                n = Neg (t)
            }
        >
    }
"""
"""TVM's importer takes what BatchNormalization gives as a whole for its result, and Neg stumbles over it."""


def branches() -> Case:
    made = onnx.parser.parse_model(BRANCHES)
    inputs = {"x": np.zeros((1, 1)), "which": np.array(False)}
    return Case("onnx", made.SerializeToString(), inputs, Target("tvm"))


def test_a_body_ends_before_the_node_that_makes_its_result():
    shorter = list(ended_earlier(branches().parsed, ("Neg",)))
    assert [[node.op_type for node in walk_nodes(each.graph)] for each in shorter] == [
        ["If", "Identity", "BatchNormalization"]
    ]


@pytest.mark.slow
def test_what_stumbles_within_a_branch_is_a_face_of_what_went_wrong_before_it(tvm_judge):
    case = branches()
    verdict = tvm_judge.verdict(case)
    found = find_root(case, verdict, (), tvm_judge)
    assert verdict.outcome is Outcome.EXCEPTION
    assert "Neg" not in found.root.case.measure.ops
    assert "a sequence" in found.root.verdict.title


def masked(*after: str) -> Case:
    """TVM gives Dropout's mask as a float, over which a later operator on booleans stumbles."""
    chain = [("Dropout", ["x"], ["d", "m0"])]
    chain += [(operator, [f"m{at}"], [f"m{at + 1}"]) for at, operator in enumerate(after)]
    made = model(chain, {"x": (FLOAT, [2])}, {f"m{len(after)}": (TensorProto.BOOL, [2])}, opset=13)
    return Case("onnx", made.SerializeToString(), {"x": np.ones(2, np.float32)}, Target("tvm"))


@pytest.mark.slow
def test_what_stumbles_over_an_operators_wrong_dtype_is_explained_by_it(tvm_judge):
    wrong, stumbling = (tvm_judge.verdict(masked(*after)) for after in ((), ("Not",)))
    known = replace(bug(masked(), "mismatch"), shown=frozenset({(str(wrong.symptom), "0.27")}))
    found = explain(masked("Not"), stumbling, [known], tvm_judge)
    assert (wrong.outcome, stumbling.outcome) == (Outcome.MISMATCH, Outcome.EXCEPTION)
    assert found.bug is known
    assert found.checks <= 3


def bug(case: Case, outcome: str, passes: tuple[str, ...] = (), key: int = 1) -> Bug:
    return Bug(key, f"C{key:04d}", case, outcome, passes)


def test_a_bug_of_a_pass_explains_what_goes_away_with_the_pass(judge):
    known = [bug(clip_exception(), "exception", ("FuseReluClip",)), bug(lost_dim(), "mismatch", FUSION, 2)]
    case = face("Concat", before=3)
    found = explain(case, judge.verdict(case), known, judge)
    assert found.bug is known[1]
    assert found.checks <= 3
    assert "DivMulFusion" in found.why


def test_a_bug_of_a_pass_does_not_explain_what_stays(judge):
    case = division_crash(2)
    found = explain(case, judge.verdict(case), [bug(lost_dim(), "mismatch", FUSION)], judge)
    assert found.bug is None


FUSION = ("DivMulFusion",)


def lost_dim() -> Case:
    made = model(LOST_DIM, SCALARS, {"m": (FLOAT, [1])}, {"one": np.ones(1, np.float32)})
    inputs = {"x": np.array(2.0, np.float32), "y": np.array(3.0, np.float32)}
    return Case("onnx", made.SerializeToString(), inputs, ORT)


def test_a_crash_of_a_kernel_explains_one_in_the_same_operator_with_the_same_kind_of_values(judge):
    known = bug(division_crash(), "crash")
    larger = division_crash(extra_nodes=4)
    assert explain(larger, judge.verdict(larger), [known], judge).bug is known
    site = site_of_crash(larger, judge)
    assert (site.operator, site.dtypes) == ("Div", ("int64", "int64"))
    assert "0 holds the least integer" in site.special


def quantised(operator: str, *constants: str, opset: int = 13) -> Case:
    """int32 taken back to float32 and moved: QDQPropagation puts a quantisation to uint8 behind."""
    nodes = [("DequantizeLinear", ["x", "scale"], ["d"]), (operator, ["d", *constants], ["y"])]
    weights = {"scale": np.array(1.0, np.float32), **{name: np.array([0], np.int64) for name in constants}}
    dims = [1] if operator == "Unsqueeze" else []
    made = model(nodes, {"x": (TensorProto.INT32, [])}, {"y": (FLOAT, dims)}, weights, opset=opset)
    return Case("onnx", made.SerializeToString(), {"x": np.array(-1, np.int32)}, ORT, origin=operator)


def test_the_nodes_that_a_pass_put_in_name_its_bug_and_not_those_around(judge):
    cores, signatures = set(), []
    for case in (quantised("Transpose"), quantised("Unsqueeze", "axes")):
        shown = judge.verdict(case)
        passes = ("QDQPropagationTransformer",)
        cores.add(core_of(case, shown, passes, judge))
        signatures.append(name_reduced(case, shown, passes, judge))
    assert cores == {"+DequantizeLinear +QuantizeLinear"}
    assert compare(*signatures).distance <= MERGE


def moved(operator: str) -> Case:
    """A float8 taken back to float32 and moved: two passes leave the node a float8, which it lacks."""
    zero = np.zeros((), ml_dtypes.float8_e5m2fnuz)
    nodes = [("DequantizeLinear", ["x", "scale", "zero"], ["d"]), (operator, ["d"], ["y"])]
    weights = {"scale": np.array(1.0, np.float32), "zero": zero}
    typed = {"x": (TensorProto.FLOAT8E5M2FNUZ, [])}
    made = model(nodes, typed, {"y": (FLOAT, [])}, weights, opset=19)
    return Case("onnx", made.SerializeToString(), {"x": zero}, ORT)


def test_a_node_that_passes_give_other_types_names_their_bug_whatever_it_is(judge):
    passes = ("QDQPropagationTransformer", "QDQSelectorActionTransformer")
    cases = (moved("Squeeze"), moved("Transpose"))
    one, two = (name_reduced(case, judge.verdict(case), passes, judge) for case in cases)
    assert one.digest != two.digest
    assert compare(one, two).distance <= MERGE
    assert compare(one, name_reduced(cases[1], judge.verdict(cases[1]), passes[:1], judge)).distance > MERGE


def test_a_wrong_shape_and_wrong_values_of_one_rewrite_stay_two(judge):
    case = lost_dim()
    shown = judge.verdict(case)
    named = name_reduced(case, shown, FUSION, judge)
    assert ("core", "-Mul") in named.components
    values = [(key, "value" if key == "kind" else text) for key, text in named.components]
    assert compare(named, Signature.of(*values)).distance > MERGE


def test_two_operators_that_break_their_declaration_are_two_bugs():
    one, two = (
        Signature.of(("backend", "ort"), ("outcome", "mismatch"), ("site", site), ("kind", "shape"))
        for site in ("Reduction", "GatherND")
    )
    assert "site differs" in compare(one, two).obstacle


def accepted(site: str) -> Signature:
    return Signature.of(("backend", "ort"), ("outcome", "mismatch"), ("site", site), ("kind", "accepted"))


def test_an_invalid_model_that_is_accepted_is_named_by_the_rule_that_it_breaks():
    rule = "[ShapeInferenceError] axis must be in [-rank, rank-*]. Input"
    one, two, other = (
        accepted(f"[ShapeInferenceError] Inference error(s): (op_type:{operator}: {rule}{rest}")
        for operator, rest in (
            ("ReduceSumSquare, node name: *", ""),
            ("ReduceSumSquare)", " rank was *"),
            ("Pad)", ""),
        )
    )
    assert compare(one, two).distance <= MERGE
    assert compare(one, other).obstacle


def test_a_call_is_named_by_what_the_functions_within_it_hold():
    inner = helper.make_function("own", "f0", ["a"], ["b"], [helper.make_node("ReduceMax", ["a"], ["b"])], [])
    call = helper.make_node("f0", ["x"], ["y"], domain="own")
    outer = helper.make_function("own", "closure", ["x"], ["y"], [call], [])
    assert _site(helper.make_node("closure", ["x"], ["y"], domain="own"), [outer, inner]) == "Reduction"
    assert _site(helper.make_node("Pad", ["x"], ["y"]), [outer, inner]) == "Pad"


CRASH = "crash | execute | SIGSEGV | onnxruntime_pybind11_state fn_7f1cc0"
DECLARED = "mismatch | compare | shape | Reduction | un-optimised"


def test_what_names_itself_needs_no_check():
    known = replace(bug(division_crash(), "crash"), shown=frozenset({(CRASH, "1.31.1")}))
    held = Counter({"Div": 1, "Add": 2})
    assert by_symptom(CRASH, "1.31.1", held, [known]) is not None
    assert by_symptom(CRASH, "1.30.0", held, [known]) is None
    assert by_symptom(CRASH, "1.31.1", Counter({"Clip": 1}), [known]) is None
    machine = "crash | execute | SIGSEGV | libtvm_runtime tvm::runtime::memory::StorageObj::AllocTensor"
    stored = replace(known, shown=frozenset({(machine, "0.27")}))
    assert by_symptom(machine, "0.27", Counter({"relax.exp": 1}), [stored]) is not None
    broken = replace(known, outcome="mismatch", shown=frozenset({(DECLARED, "1.31.1")}))
    assert by_symptom(DECLARED, "1.31.1", Counter({"ReduceMax": 1}), [broken]) is not None
    mixed = "exception | import | TypeError | Pow: uses {} on the left and {} on the right | optimised"
    power = replace(known, outcome="exception", shown=frozenset({(mixed.format("int64", "float32"), "0.27")}))
    power = replace(power, case=face("Tile"))
    every = power.operators
    assert by_symptom(mixed.format("bool", "float16"), "0.27", every, [power]) is not None
    assert by_symptom(mixed.format("bool", "a shape"), "0.27", every, [power]) is None
    by_pass = "exception | optimise | Fail | pool.h Pool | Pad should be smaller | optimised"
    assert not names_itself(by_pass, ("Pad_Fusion",))
    assert names_itself(by_pass)
    assert names_itself("exception | import | ValueError | Size: no ShapeExpr | optimised", ("FuseOps",))
    assert not names_itself("mismatch | compare | value | optimised")
    assert not names_itself("timeout | execute | timeout")
    assert not names_itself("mismatch | compare | value | un-optimised | golden")
    assert not names_itself("mismatch | compare | nondeterministic | un-optimised")
    assert not names_itself("crash | execute | SIGSEGV | optimised")  # a side is no place
    assert not names_itself("crash | execute | SIGSEGV | un-optimised")


@pytest.mark.parametrize(
    ("failure", "known", "expected"),
    [
        (
            "exception | execute | Fail | tile.cc | x | optimised",
            "mismatch | compare | shape | optimised",
            True,
        ),
        ("mismatch | compare | nan | optimised", "mismatch | compare | value | optimised", True),
        ("mismatch | compare | value | optimised", "mismatch | compare | shape | optimised", False),
        ("mismatch | compare | value | optimised", "exception | optimise | Fail | a.cc f | x", False),
    ],
)
def test_what_may_be_the_effect_of_a_bug_of_the_same_passes(failure, known, expected):
    assert may_follow(failure, known) is expected


def test_operators_that_take_and_give_the_same_may_share_a_kernel():
    assert share_a_kernel("Min", "Mean")
    assert share_a_kernel("ArgMax", "ArgMin")
    assert not share_a_kernel("Min", "Concat")
    assert not share_a_kernel("Einsum", "com.example:Mine")


def test_a_base_that_is_given_no_operand_dies_in_whichever_operator_has_it():
    left_out, empty = frozenset({"1 is left out"}), frozenset({"0 is empty"})
    known = Site("Min", ("int32",), left_out)
    assert Site("Max", ("float32",), left_out).is_like(known)
    assert not Site("Max", ("int32",), empty).is_like(Site("Min", ("int32",), empty))
    assert not Site("Einsum", ("int32",), left_out).is_like(known)


@pytest.mark.slow
def test_crashes_in_one_native_function_are_faces_of_one_bug(tmp_path):
    for operator in ("Min", "Sum"):
        made = model([(operator, ["x", ""], ["y"])], {"x": (FLOAT, [2])}, {"y": (FLOAT, [2])})
        Case("onnx", made.SerializeToString(), {"x": np.ones(2, np.float32)}, ORT).save(tmp_path / operator)
    crux(tmp_path, "check", "Min", "Sum", "--db", "crux.db", "--json")
    crux(tmp_path, "reduce", "--all", "--db", "crux.db", "--json")
    (cluster,) = json.loads(crux(tmp_path, "triage", "--db", "crux.db", "--json").stdout)
    assert cluster["count"] == 2


def test_inputs_optional_operands_and_the_operator_set_are_no_part_of_a_form_and_constants_are():
    old, new = (quantised("Unsqueeze", "axes", opset=opset) for opset in (13, 21))
    assert form_of(old) == form_of(new)
    assert form_of(old) != form_of(quantised("Squeeze"))
    offset = model(
        [("DequantizeLinear", ["x", "scale", "x"], ["d"]), ("Unsqueeze", ["d", "axes"], ["y"])],
        {"x": (TensorProto.INT32, [])},
        {"y": (FLOAT, [1])},
        {"scale": np.array(1.0, np.float32), "axes": np.array([0], np.int64)},
    )
    offset.graph.initializer.sort(key=lambda tensor: tensor.name)
    assert form_of(replace(old, program=offset.SerializeToString())) == form_of(old)
    offset.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.array(3.0, np.float32), "scale"))
    assert form_of(replace(old, program=offset.SerializeToString())) != form_of(old)


@pytest.mark.slow
def test_one_rewrite_of_one_graph_that_raises_here_and_is_wrong_there_is_one_bug(tmp_path):
    """No kernel quantises to uint8 with opset 21's int32; with the older one negative values are lost."""
    for opset in (13, 21):
        quantised("Unsqueeze", "axes", opset=opset).save(tmp_path / f"opset{opset}")
    crux(tmp_path, "check", "opset13", "opset21", "--db", "crux.db", "--json")
    crux(tmp_path, "reduce", "--all", "--db", "crux.db", "--json")
    (cluster,) = json.loads(crux(tmp_path, "triage", "--db", "crux.db", "--json").stdout)
    assert cluster["count"] == 2
    assert len(cluster["faces"]) == 1


def test_what_a_reduction_was_worth(store):
    counted = ReductionBenefit().add(Worth.NEW).add(Worth.SMALLER).add(Worth.KNOWN).add(Worth.SAMPLE)
    assert str(counted).startswith("4 reduced: 1 new cause, 1 smaller case, 1 known again, 1 sample")
    assert str(counted).endswith("67% of what nothing explained")
    assert str(ReductionBenefit(new=2)) == "2 reduced: 2 new causes, 100% of what nothing explained"
    assert str(ReductionBenefit(sample=1)) == "1 reduced: 1 sample of what is explained"
    failure = record_failure(store, division_crash(), verdict("boom"))
    assert worth_of(store, failure) is Worth.NEW


def test_a_declared_limit_is_reported_as_a_request():
    declared = replace(verdict("Dynamic pads are not supported yet"), marks={Mark.LIMIT: "importer-limit"})
    assert request_title("Pad: refused", declared) == "Feature request: Pad: refused"
    assert request_labels(("frontend", "type:bug"), declared) == ("frontend", "type:feature")
    assert request_title("Pad: refused", verdict("boom")) == "Pad: refused"


def test_a_declared_limit_is_listed_apart_and_not_chosen_for_reduction(tmp_path):
    declared = replace(verdict("Dynamic pads are not supported yet"), marks={Mark.LIMIT: "importer-limit"})
    with Store(tmp_path / "crux.db") as store:
        limit = record_failure(store, healthy(1), declared)
        other = record_failure(store, healthy(2), verdict("boom"))
        assert (limit.status, other.status) == ("limit", "new")
        assert next(waiting(store)).id == other.id
        states = {document["id"]: document["status"] for document in overview(store)}
    assert list(states.items()) == [(other.cluster_name, "new"), (limit.cluster_name, "limit")]


def test_what_is_judged_no_bug_any_more_is_set_aside(tmp_path):
    made = model([("Mine", ["x"], ["y"])], {"x": (FLOAT, [1])}, {"y": (FLOAT, [1])})
    unknown = Case("onnx", made.SerializeToString(), {"x": np.ones(1, np.float32)}, ORT)
    with Store(tmp_path / "crux.db") as store:
        failure = record_failure(store, unknown, verdict("it was called a bug once"))
    crux(tmp_path, "reduce", "--all", "--db", "crux.db", "--json")
    with Store(tmp_path / "crux.db") as store:
        assert get_failure(store, failure.id).status == UNREDUCIBLE


def test_a_failure_that_is_left_as_it_is_comes_once(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        known = [record_failure(store, healthy(size), verdict("boom" * size)).id for size in (1, 2, 3)]
        seen = []
        for failure in waiting(store):
            seen.append(failure.id)
            assert len(seen) <= len(known)
    assert sorted(seen) == known


@pytest.mark.slow
def test_the_faces_of_a_bug_are_one_cluster_that_names_its_root(tmp_path):
    folders = []
    for operator in sorted(FACES):
        face(operator, before=1).save(tmp_path / operator)
        folders.append(operator)
    checked = crux(tmp_path, "check", *folders, "--db", "crux.db", "--json")
    assert checked.returncode == 1, checked.stderr
    reduced = crux(tmp_path, "reduce", "--all", "--db", "crux.db", "--json")
    assert reduced.returncode == 0, reduced.stderr
    (cluster,) = json.loads(crux(tmp_path, "triage", "--db", "crux.db", "--json").stdout)
    assert "shape" in cluster["title"]
    states = {each["status"] for each in cluster["failures"]}
    assert states <= {"reduced", "explained"}
    assert cluster["count"] >= len(FACES)
    assert all("Mul" not in each["title"].split(":")[0] for each in cluster["faces"]) or cluster["faces"]
    first, second = cluster["failures"][0]["id"], cluster["failures"][1]["id"]
    told = json.loads(crux(tmp_path, "triage", "why", first, second, "--db", "crux.db", "--json").stdout)
    assert told["together"]
    assert any("is a face of" in words or "is explained by" in words for words in told["words"])


def never_written(*, around: bool) -> Case:
    """A product over an empty dim, which onnxruntime does not write; with nodes around it that are right."""
    nodes = [("MatMulInteger", ["a", "b"], ["y"])]
    outputs = {"y": (TensorProto.INT32, [17, 17])}
    if around:
        nodes += [("Abs", ["y"], ["z"]), ("Neg", ["x"], ["n"])]
        outputs = {"z": outputs["y"], "n": (FLOAT, [])}
    made = model(nodes, {"x": SCALARS["x"]} if around else {}, outputs, EMPTY, opset=13)
    inputs = {"x": np.array(2.0, np.float32)} if around else {}
    return Case("onnx", made.SerializeToString(), inputs, ORT, origin=f"never:{around}")


EMPTY = {"a": np.ones((17, 0), np.int8), "b": np.ones((0, 17), np.int8)}


def test_wrong_values_are_explained_by_the_operator_without_which_nothing_is_wrong(judge):
    case = never_written(around=True)
    shown = judge.verdict(case)
    known = replace(bug(never_written(around=False), "mismatch"), shown=frozenset({(str(shown.symptom), "")}))
    found = explain(case, shown, [known], judge)
    assert shown.is_bug
    assert found.bug is known
    assert found.checks <= 3
    other = replace(known, case=healthy())
    assert explain(case, shown, [other], judge).bug is None


def test_what_runs_a_body_explains_nothing_by_its_operator():
    assert bug(never_written(around=False), "mismatch").is_of_an_operator
    body = "b () => (float x) { }"
    branch = model_of(
        f"g (bool c, float x) => (float y) {{ y = If (c) <then_branch = {body}, else_branch = {body}> }}"
    )
    whole = Case("onnx", branch.SerializeToString(), {}, ORT)
    assert not bug(whole, "mismatch").is_of_an_operator


def test_what_leads_to_the_wrong_output_is_tried_alone(judge):
    case = never_written(around=True)
    found = find_root(case, judge.verdict(case), ("ConstantFolding",), judge)
    assert found.root.case.measure.ops == ("MatMulInteger", "Abs")
    assert found.root.passes == ()


def test_a_bug_of_a_pass_needs_what_the_pass_takes_away():
    whole = replace(bug(face("Tile"), "mismatch", FUSION), core="-Div -Mul +Div")
    assert whole.needed == Counter({"Div": 1, "Mul": 1})
    assert whole.is_in(Counter({"Div": 1, "Mul": 1, "Concat": 1}))
    assert replace(whole, core="-relax.add +relax.multiply").needed == whole.operators
    raised = replace(whole, outcome="exception", shown=frozenset({("exception | x", "1.31.1")}))
    assert raised.may_be_in(Counter(), "exception | x")
    assert not raised.may_be_in(Counter(), "exception | y")


def test_what_checks_found_to_be_no_known_bug_is_reduced_however_many_are_alike(store):
    for number in range(4):
        failure = record_failure(store, healthy(number), verdict(outcome=Outcome.MISMATCH))
        if number < 3:
            store.write("UPDATE failures SET status = 'reduced', reduced_case = case_id")
    assert Selection(store, "ort").next() is None
    assert Selection(store, "ort", lambda number: True).next().id == failure.id


def crash_over(*operands: str) -> Signature:
    head = (("backend", "ort"), ("outcome", "crash"), ("signal", "SIGSEGV"), ("ops", "LSTM"))
    return Signature.of(*head, ("operands", "; ".join(operands)))


def test_crashes_of_one_operator_over_other_operands_are_two():
    empty, both = crash_over("0 is empty"), crash_over("0 is empty", "2 is empty")
    assert compare(empty, both).distance <= MERGE
    assert compare(empty, crash_over()).distance <= MERGE
    assert "other operands" in compare(empty, crash_over("1 is left out")).obstacle


def test_a_native_crash_is_named_by_operator_and_operands_and_by_no_offset(judge):
    case = division_crash()
    named = dict(name_reduced(case, judge.verdict(case), (), judge).components)
    assert named["ops"] == "Div"
    assert "0 holds the least integer" in named["operands"]
    assert not any("fn_" in text for text in named.values())


def test_an_operand_that_is_left_out_is_special(judge):
    made = model([("Max", ["x", ""], ["y"])], {"x": (FLOAT, [2])}, {"y": (FLOAT, [2])})
    case = Case("onnx", made.SerializeToString(), {"x": np.ones(2, np.float32)}, ORT)
    site = site_of_crash(case, judge)
    assert site.telling == {"1 is left out"}


def test_a_root_may_show_only_where_something_reads_on(judge):
    """EliminateDropout leaves its ratio in place of its data, unless that is an output."""
    inputs = {"r": (FLOAT, []), "x": (FLOAT, [1])}
    nodes = [
        ("Abs", ["r"], ["a"]),
        ("Dropout", ["x", "a"], ["d"]),
        ("Transpose", ["d"], ["y"], {"perm": [0]}),
    ]
    made = model(nodes, inputs, {"y": (FLOAT, [1])}, opset=13)
    given = {"r": np.array(0.0, np.float32), "x": np.zeros(1, np.float32)}
    case = Case("onnx", made.SerializeToString(), given, ORT)
    shown = judge.verdict(case)
    assert shown.is_bug
    found = find_root(case, shown, ("EliminateDropout",), judge)
    assert found.root.case.measure.ops == ("Abs", "Dropout", "Identity")
    assert found.checks <= MOST_CHECKS


def test_a_bug_lists_why_its_other_failures_were_not_reduced(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        known = record_failure(store, healthy(1), verdict("boom"))
        for number in (2, 3):
            other = record_failure(store, healthy(number), verdict("boom"))
            note_explained(store, other.id, known.id, {"version": 1, "checks": 0, "why": "it says the same"})
            mark_explained(store, other, known, "it says the same")
        (document,) = overview(store)
    assert document["explained"] == [{"why": "it says the same", "failures": 2, "first": "F00002"}]


@pytest.mark.slow
def test_the_core_of_one_of_tvms_passes_is_what_its_log_says(tvm_judge):
    pytest.importorskip("tvm")
    nodes = [("CumSum", ["x", "axis"], ["c"]), ("Neg", ["c"], ["y"])]
    made = model(nodes, {"x": (FLOAT, [4])}, {"y": (FLOAT, [4])}, {"axis": np.array(0)}, opset=18)
    inputs = {"x": np.ones(4, np.float32)}
    case = Case("onnx", made.SerializeToString(), inputs, Target("tvm"))
    found = core_of(case, tvm_judge.verdict(case), ("DispatchSortScan",), tvm_judge)
    assert found.startswith("-cumsum +call_tir")
    assert "neg" not in found


def test_weights_are_asked_alone_and_the_whole_with_them_given(judge):
    nodes = [("Mul", ["x", "w"], ["m"]), ("Gather", ["m", "i"], ["y"])]
    weights = {"w": np.array([2, 3], np.float32), "i": np.array([1])}
    made = model(nodes, {"x": (FLOAT, [2])}, {"y": (FLOAT, [1])}, weights)
    whole = Case("onnx", made.SerializeToString(), {"x": np.ones(2, np.float32)}, ORT)
    alone, given = language_of("onnx").weights_apart(whole) or pytest.fail("no weights")
    (read,), (wanted,), (computed,) = (judge.runs(each, judge.configs[:1]) for each in (alone, whole, given))
    assert {name: value.tolist() for name, value in read.outputs.items()} == {"w_read": [2, 3], "i_read": [1]}
    assert computed.outputs["y"].tolist() == wanted.outputs["y"].tolist() == [3]
    assert not given.parsed.graph.initializer
    assert language_of("onnx").weights_apart(replace(whole, program=given.program)) is None
