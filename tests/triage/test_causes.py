"""Faces of one bug stand under their root, and what a known bug explains is not reduced."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from oracles.naming import Signature
from oracles.verdict import Mark
from reducer.pass_sets import core_of
from tests.helpers.commands import crux
from tests.helpers.failing import clip_exception, division_crash, healthy, on_ort, verdict
from triage.bugs.failures import mark_explained, record_failure
from triage.bugs.overview import overview
from triage.causes.consequences import MOST_CHECKS, find_root
from triage.causes.cores import site_of_crash
from triage.causes.explaining import Bug, by_symptom, explain, may_follow, names_itself
from triage.clustering.similarity import MERGE, compare
from triage.reductions.explained import name_reduced, waiting
from triage.reports.limit_request import request_labels, request_title
from triage.store.causes import note_explained
from triage.store.database import Store
from triage.store.failures import UNREDUCIBLE, get_failure

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


def test_a_wrong_shape_and_wrong_values_of_one_rewrite_stay_two(judge):
    case = lost_dim()
    shown = judge.verdict(case)
    named = name_reduced(case, shown, FUSION, judge)
    assert ("core", "-Mul") in named.components
    values = [(key, "value" if key == "kind" else text) for key, text in named.components]
    assert compare(named, Signature.of(*values)).distance > MERGE


CRASH = "crash | execute | SIGSEGV | onnxruntime_pybind11_state fn_7f1cc0"


def test_what_names_itself_needs_no_check():
    known = replace(bug(division_crash(), "crash"), shown=frozenset({(CRASH, "1.31.1")}))
    held = Counter({"Div": 1, "Add": 2})
    assert by_symptom(CRASH, "1.31.1", held, [known]) is not None
    assert by_symptom(CRASH, "1.30.0", held, [known]) is None
    assert by_symptom(CRASH, "1.31.1", Counter({"Clip": 1}), [known]) is None
    mixed = "exception | import | TypeError | Pow: uses {} on the left and {} on the right | optimised"
    power = replace(known, outcome="exception", shown=frozenset({(mixed.format("int64", "float32"), "0.27")}))
    power = replace(power, case=face("Tile"))
    every = power.operators
    assert by_symptom(mixed.format("bool", "float16"), "0.27", every, [power]) is not None
    assert by_symptom(mixed.format("bool", "a shape"), "0.27", every, [power]) is None
    by_pass = "exception | optimise | Fail | pool.h Pool | Pad should be smaller | optimised"
    assert not names_itself(by_pass, ("Pad_Fusion",))
    assert names_itself(by_pass)
    assert not names_itself("mismatch | compare | nondeterministic | un-optimised")
    assert not names_itself("crash | execute | SIGSEGV | optimised")  # a side is no place
    assert not names_itself("crash | execute | SIGSEGV | un-optimised")


@pytest.mark.parametrize(
    ("failure", "known", "expected"),
    [
        ("mismatch | compare | nan | optimised", "mismatch | compare | value | optimised", True),
        ("mismatch | compare | value | optimised", "mismatch | compare | shape | optimised", False),
        ("mismatch | compare | value | optimised", "exception | optimise | Fail | a.cc f | x", False),
    ],
)
def test_what_may_be_the_effect_of_a_bug_of_the_same_passes(failure, known, expected):
    assert may_follow(failure, known) is expected


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


@pytest.mark.slow
def test_one_rewrite_of_one_graph_that_raises_here_and_is_wrong_there_is_one_bug(tmp_path):
    """No kernel quantises to uint8 with opset 21's int32; with the older one negative values are lost."""
    cases = {f"opset{opset}": quantised("Unsqueeze", "axes", opset=opset) for opset in (13, 21)}
    cluster = clustered(tmp_path, cases)
    assert cluster["count"] == 2
    assert len(cluster["faces"]) == 1


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


def test_what_leads_to_the_wrong_output_is_tried_alone(judge):
    case = never_written(around=True)
    found = find_root(case, judge.verdict(case), ("ConstantFolding",), judge)
    assert found.root.case.measure.ops == ("MatMulInteger", "Abs")
    assert found.root.passes == ()


def test_a_native_crash_is_named_by_operator_and_operands_and_by_no_offset(judge):
    case = division_crash()
    named = dict(name_reduced(case, judge.verdict(case), (), judge).components)
    assert named["ops"] == "Div"
    assert "0 holds the least integer" in named["operands"]
    assert not any("fn_" in text for text in named.values())


def test_a_bug_lists_why_its_other_failures_were_not_reduced(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        known = record_failure(store, healthy(1), verdict("boom"))
        for number in (2, 3):
            other = record_failure(store, healthy(number), verdict("boom"))
            note_explained(store, other.id, known.id, {"version": 1, "checks": 0, "why": "it says the same"})
            mark_explained(store, other, known, "it says the same")
        (document,) = overview(store)
    assert document["explained"] == [{"why": "it says the same", "failures": 2, "first": "F00002"}]
