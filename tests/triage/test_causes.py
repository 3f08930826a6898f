"""Faces of one bug stand under their root, and what a known bug explains is not reduced."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from corpus.case import Case
from corpus.onnx.graph import walk_nodes
from corpus.target import Target
from oracles.naming import Signature
from oracles.rules.wrong_nodes import _site
from oracles.verdict import Mark, Outcome
from reducer.pass_sets import core_of
from tests.helpers.commands import crux
from tests.helpers.failing import ORT, clip_exception, division_crash, healthy, on_ort, verdict
from tests.helpers.models import case_of, model_of
from triage.bugs.failures import mark_explained, record_failure
from triage.bugs.overview import overview
from triage.campaigns.target_campaigns import Worth, benefit_of, worth_of
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

on_tvm = partial(case_of, target=Target("tvm"))
ONE = np.ones(2, np.float32)
SCALARS = {"x": np.float32(2), "y": np.float32(3)}
LOST_DIM = "d = Div (one, {}) m = Mul (d, y)"
"""DivMulFusion makes y / x of 1 / x * y, and so loses the dim of the constant."""

FACES = {
    "Tile": ("z = Tile (m, n)", "[3]", ", int64[1] n = {3}"),
    "Concat": ("z = Concat <axis = 0> (m, m)", "[2]", ""),
    "Softmax": ("z = Softmax <axis = 0> (m)", "[1]", ""),
    "Squeeze": ("z = Squeeze (m, n)", "", ", int64[1] n = {0}"),
}
"""Nodes that stumble over a lost dim, each in its own way; the dims of the result, a constant."""


def face(operator: str, *, before: int = 0) -> Case:
    """A lost dim of DivMulFusion that shows at another operator, after some nodes that do not matter."""
    node, dims, constant = FACES[operator]
    nodes = " ".join(f"x{at + 1} = Neg (x{at})" for at in range(before))
    nodes = f"x0 = Identity (x) {nodes} {LOST_DIM.format(f'x{before}')} {node}"
    text = f"g (float x, float y) => (float{dims} z) <float[1] one = {{1}}{constant}> {{ {nodes} }}"
    return replace(on_ort(text, **SCALARS), origin=f"face:{operator}:{before}")


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


BRANCHES = """g (double[1,1] x, bool which) => (double[1,1] y) <double[1] w = {0}> {
    y = If (which) <
        then_branch = one () => (double[1,1] b) { b = Identity (x) },
        else_branch = two () => (double[1,1] n) { t = BatchNormalization (x, w, w, w, w) n = Neg (t) }
    > }"""
"""TVM's importer takes what BatchNormalization gives as a whole for its result, and Neg stumbles over it."""


def branches() -> Case:
    return on_tvm(BRANCHES, ir=10, x=np.zeros((1, 1)), which=np.bool_(False))


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
    chain = " ".join(f"m{at + 1} = {operator} (m{at})" for at, operator in enumerate(after))
    text = f"g (float[2] x) => (bool[2] m{len(after)}) {{ d, m0 = Dropout (x) {chain} }}"
    return on_tvm(text, opset=13, x=ONE)


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
    text = f"g (float x, float y) => (float[1] m) <float[1] one = {{1}}> {{ {LOST_DIM.format('x')} }}"
    return on_ort(text, **SCALARS)


def test_a_crash_of_a_kernel_explains_one_in_the_same_operator_with_the_same_kind_of_values(judge):
    known = bug(division_crash(), "crash")
    larger = division_crash(extra_nodes=4)
    assert explain(larger, judge.verdict(larger), [known], judge).bug is known
    site = site_of_crash(larger, judge)
    assert (site.operator, site.dtypes) == ("Div", ("int64", "int64"))
    assert "0 holds the least integer" in site.special


def quantised(operator: str, *constants: str, opset: int = 13) -> Case:
    """int32 taken back to float32 and moved: QDQPropagation puts a quantisation to uint8 behind."""
    weights = "".join(f", int64[1] {name} = {{0}}" for name in constants)
    dims = "[1]" if operator == "Unsqueeze" else ""
    nodes = f"d = DequantizeLinear (x, scale) y = {operator} ({', '.join(('d', *constants))})"
    text = f"g (int32 x) => (float{dims} y) <float scale = {{1}}{weights}> {{ {nodes} }}"
    return replace(on_ort(text, opset=opset, x=np.int32(-1)), origin=operator)


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
    nodes = f"d = DequantizeLinear (x, scale, zero) y = {operator} (d)"
    made = model_of(f"g (float8e5m2fnuz x) => (float y) <float scale = {{1}}> {{ {nodes} }}", 19, zero=zero)
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


LEFT_OUT = 'g (float[2] x) => (float[2] y) {{ y = {} (x, "") }}'


def clustered(folder: Path, cases: Mapping[str, Case]) -> dict[str, Any]:
    """The one cluster of failures that were checked and reduced by the commands."""
    for name, case in cases.items():
        case.save(folder / name)
    assert crux(folder, "check", *cases, "--db", "crux.db", "--json").returncode == 1
    reduced = crux(folder, "reduce", "--all", "--db", "crux.db", "--json")
    assert reduced.returncode == 0, reduced.stderr
    (cluster,) = json.loads(crux(folder, "triage", "--db", "crux.db", "--json").stdout)
    return cluster


@pytest.mark.slow
def test_crashes_in_one_native_function_are_faces_of_one_bug(tmp_path):
    dying = {operator: on_ort(LEFT_OUT.format(operator), x=ONE) for operator in ("Min", "Sum")}
    assert clustered(tmp_path, dying)["count"] == 2


def test_inputs_optional_operands_and_the_operator_set_are_no_part_of_a_form_and_constants_are():
    old, new = (quantised("Unsqueeze", "axes", opset=opset) for opset in (13, 21))
    assert form_of(old) == form_of(new)
    assert form_of(old) != form_of(quantised("Squeeze"))
    nodes = "d = DequantizeLinear (x, scale, x) y = Unsqueeze (d, axes)"
    text = f"g (int32 x) => (float[1] y) <int64[1] axes = {{0}}, float scale = {{1}}> {{ {nodes} }}"
    assert form_of(on_ort(text, x=np.int32(-1))) == form_of(old)
    model = onnx.load_from_string(old.program)
    raw = [
        numpy_helper.from_array(numpy_helper.to_array(each), each.name) for each in model.graph.initializer
    ]
    del model.graph.initializer[:]
    model.graph.initializer.extend(raw)
    assert form_of(replace(old, program=model.SerializeToString())) == form_of(old), "values in raw bytes"
    assert form_of(on_ort(text.replace("scale = {1}", "scale = {3}"), x=np.int32(-1))) != form_of(old)


@pytest.mark.slow
def test_one_rewrite_of_one_graph_that_raises_here_and_is_wrong_there_is_one_bug(tmp_path):
    """No kernel quantises to uint8 with opset 21's int32; with the older one negative values are lost."""
    cases = {f"opset{opset}": quantised("Unsqueeze", "axes", opset=opset) for opset in (13, 21)}
    cluster = clustered(tmp_path, cases)
    assert cluster["count"] == 2
    assert len(cluster["faces"]) == 1


def test_what_a_reduction_was_worth(store):
    counted = benefit_of(Counter(Worth))
    assert counted.startswith("4 reduced: 1 new cause, 1 smaller case, 1 known again, 1 sample")
    assert counted.endswith("67% of what nothing explained")
    assert benefit_of(Counter({Worth.NEW: 2})) == "2 reduced: 2 new causes, 100% of what nothing explained"
    assert benefit_of(Counter({Worth.SAMPLE: 1})) == "1 reduced: 1 sample of what is explained"
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
    unknown = on_ort("g (float[2] x) => (float[2] y) { y = Mine (x) }", x=ONE)
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
    cluster = clustered(tmp_path, {operator: face(operator, before=1) for operator in sorted(FACES)})
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
    weights, product = "int8[17,0] a = {}, int8[0,17] b = {}", "y = MatMulInteger (a, b)"
    if not around:
        text = f"g () => (int32[17,17] y) <{weights}> {{ {product} }}"
        return replace(on_ort(text, opset=13), origin="never:alone")
    nodes = f"{product} z = Abs (y) n = Neg (x)"
    text = f"g (float x) => (int32[17,17] z, float n) <{weights}> {{ {nodes} }}"
    return replace(on_ort(text, opset=13, x=np.float32(2)), origin="never:around")


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
    text = f"g (bool c, float x) => (float y) {{ y = If (c) <then_branch = {body}, else_branch = {body}> }}"
    assert not bug(on_ort(text), "mismatch").is_of_an_operator


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


def test_a_native_crash_is_named_by_operator_and_operands_and_by_no_offset(judge):
    case = division_crash()
    named = dict(name_reduced(case, judge.verdict(case), (), judge).components)
    assert named["ops"] == "Div"
    assert "0 holds the least integer" in named["operands"]
    assert not any("fn_" in text for text in named.values())


def test_an_operand_that_is_left_out_is_special(judge):
    site = site_of_crash(on_ort(LEFT_OUT.format("Max"), x=ONE), judge)
    assert site.telling == {"1 is left out"}


def test_a_root_may_show_only_where_something_reads_on(judge):
    """EliminateDropout leaves its ratio in place of its data, unless that is an output."""
    nodes = "a = Abs (r) d = Dropout (x, a) y = Transpose <perm = [0]> (d)"
    text = f"g (float r, float[1] x) => (float[1] y) {{ {nodes} }}"
    case = on_ort(text, opset=13, r=np.float32(0), x=np.zeros(1, np.float32))
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
    text = "g (float[4] x) => (float[4] y) <int64 axis = {0}> { c = CumSum (x, axis) y = Neg (c) }"
    case = on_tvm(text, opset=18, x=np.ones(4, np.float32))
    found = core_of(case, tvm_judge.verdict(case), ("DispatchSortScan",), tvm_judge)
    assert found.startswith("-cumsum +call_tir")
    assert "neg" not in found


def test_weights_are_asked_alone_and_the_whole_with_them_given(judge):
    weights = "float[2] w = {2, 3}, int64[1] i = {1}"
    text = f"g (float[2] x) => (float[1] y) <{weights}> {{ m = Mul (x, w) y = Gather (m, i) }}"
    whole = on_ort(text, x=ONE)
    alone, given = language_of("onnx").weights_apart(whole) or pytest.fail("no weights")
    (read,), (wanted,), (computed,) = (judge.runs(each, judge.configs[:1]) for each in (alone, whole, given))
    assert {name: value.tolist() for name, value in read.outputs.items()} == {"w_read": [2, 3], "i_read": [1]}
    assert computed.outputs["y"].tolist() == wanted.outputs["y"].tolist() == [3]
    assert not given.parsed.graph.initializer
    assert language_of("onnx").weights_apart(replace(whole, program=given.program)) is None
