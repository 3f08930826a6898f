"""Models of every kind reduce to what the failure needs: sequences, strings, packed types, domains."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.load import open_case
from corpus.onnx.graph import walk_nodes
from corpus.target import Target
from corpus.values import Value
from oracles.sandbox.scripts import open_foreign
from oracles.verdict import Limits
from reducer.api import Reduction, reduce_case
from reducer.course import Options
from tests.helpers.commands import needs
from tests.helpers.models import model_of as weighted
from tests.reducer.driving import Counting, case_of, engine_for, has, model_of, run_to_end, subject_of

CHAIN = " ".join(f"{{to}}{at + 1} = {op} ({{to}}{at})" for at, op in enumerate(("Abs", "Neg", "Abs", "Neg")))


def chain(name: str) -> str:
    """Four nodes that do not matter, from `name`0 to `name`4."""
    return CHAIN.replace("{to}", name)


@dataclass(frozen=True)
class Kind:
    """A model, the operators that its failure needs, and the fewest nodes that have them."""

    case: Case
    needs: tuple[str, ...]
    least: int


def of_text(text: str, *needs: str, least: int, header: str | None = None, **inputs: Value) -> Kind:
    model = model_of(text, header) if header else model_of(text)
    return Kind(case_of(model, inputs or None), needs, least)


def sequences() -> Kind:
    text = f"""g (float[4] a0) => (float[] y) {{ {chain("a")} b = Identity (a4) s = SequenceConstruct (a4, b)
        n = Constant <value_int = 1> () t = SequenceInsert (s, a2) e = SequenceAt (t, n)
        c0 = Neg (e) {chain("c")} y = Identity (c4) }}"""
    return of_text(text, "SequenceInsert", least=1)


def sequence_input() -> Kind:
    text = f"""g (seq(float[2]) s) => (float[] y) {{ n = Constant <value_int = 1> () e = SequenceAt (s, n)
        a0 = Abs (e) {chain("a")} y = Neg (a4) }}"""
    members = [np.ones(2, np.float32), np.full(2, 2, np.float32)]
    return of_text(text, "SequenceAt", least=1, s=members)


def optionals() -> Kind:
    text = f"""g (float[4] a0) => (float[4] y) {{ {chain("a")} o = Optional (a4) e = OptionalGetElement (o)
        c0 = Neg (e) {chain("c")} y = Identity (c4) }}"""
    return of_text(text, "Optional", "OptionalGetElement", least=2)


def strings() -> Kind:
    text = """g (string[6] a) => (int64[N] y) { b = Identity (a) c = StringNormalizer <case_change_action =
        "LOWER"> (b) u, i, v, n = Unique (c) d = Identity (v) e = Abs (d) y = Neg (e) }"""
    words = np.array(["Ab", "c", "Ab", "D", "e", "c"], dtype=object)
    return of_text(text, "StringNormalizer", least=1, a=words)


def quantised(element: int, opset: int, ir: int) -> Kind:
    """QuantizeLinear to a packed type and back, amid other nodes."""
    text = """g (float[2,3] x) => (float[2,3] y) <float scale = {0.5}> {
        a = Abs (x) b = Neg (a) q = QuantizeLinear (b, scale, zero)
        d = DequantizeLinear (q, scale, zero) e = Abs (d) y = Neg (e) }"""
    model = weighted(text, opset, ir, zero=helper.make_tensor("zero", element, [], [0]))
    return Kind(case_of(model), ("QuantizeLinear", "DequantizeLinear"), 2)


def packed_weight() -> Kind:
    """A weight of four bits, dequantised for a MatMul."""
    text = """g (float[4,4] x) => (float[4,4] y) <float scale = {0.5}> {
        a = Abs (x) d = DequantizeLinear (w, scale) m = MatMul (a, d) y = Neg (m) }"""
    model = weighted(text, 21, 10, w=helper.make_tensor("w", TensorProto.INT4, [4, 4], list(range(-8, 8))))
    return Kind(case_of(model), ("DequantizeLinear", "MatMul"), 2)


def contributed() -> Kind:
    text = f"""g (float[2,4] a0) => (float[2,4] y) {{ {chain("a")} b = com.microsoft.Gelu (a4)
        c0 = com.microsoft.QuickGelu (b) {chain("c")} y = Identity (c4) }}"""
    return of_text(text, "QuickGelu", least=1)


UNKNOWN = '<ir_version: 8, opset_import: ["" : 17, "house.own" : 3]>'


def unknown_domain() -> Kind:
    """No backend runs it and no inference types it: by structure alone."""
    text = f"""g (float[2,4] a0) => (float[2,4] y) {{ {chain("a")} b = house.own.Fold <depth = 3> (a4)
        c0 = house.own.Twist (b) {chain("c")} y = Identity (c4) }}"""
    return of_text(text, "Twist", least=1, header=UNKNOWN)


KINDS = {
    "sequences": sequences,
    "a sequence flows in": sequence_input,
    "optionals": optionals,
    "strings": strings,
    "int4": lambda: quantised(TensorProto.INT4, 21, 10),
    "uint4": lambda: quantised(TensorProto.UINT4, 21, 10),
    "float8": lambda: quantised(TensorProto.FLOAT8E4M3FN, 19, 9),
    "a weight of four bits": packed_weight,
    "com.microsoft": contributed,
}


@pytest.mark.parametrize("name", KINDS)
def test_what_the_failure_needs_is_left(judge, name):
    kind = KINDS[name]()
    with engine_for(judge, kind.case, Counting(has(*kind.needs))) as engine:
        found = run_to_end(engine, subject_of(judge, kind.case))
    left = [node.op_type for node in found.nodes]
    assert (len(left), set(kind.needs) <= set(left), engine.is_minimal) == (kind.least, True, True)


def test_a_model_that_no_backend_runs_is_reduced_by_structure(tmp_path):
    kind = unknown_domain()
    check = "grep -q Twist {}"
    done = reduce_case(kind.case, tmp_path / "out", Options(check=check))
    assert [node.op_type for node in parse(done.case.program).graph.node] == ["Twist"]
    assert done.is_minimal


# What a command is asked about: models that onnx's strict checker, with full inference, accepts


LOOP = """g (float[N,3] x) => (float[N,3] y, float[3,N,3] all)
    <int64 n = {3}, bool yes = {1}, float c = {0.5}> {
    a = Relu(x) b = Mul(a, c) d = Exp(b)
    last, all = Loop(n, yes, d) <body = body (int64 i, bool go, float[N,3] s)
        => (bool on, float[N,3] t, float[N,3] u) {
        on = Identity(go) p = Neg(s) q = Sigmoid(p) r = Tanh(q) k = Add(r, c) t = Mul(k, s) u = Sqrt(q) }>
    y = Abs(last) }"""
BRANCHES = """g (float[2,3] x, bool k) => (float[2,3] y) <float c = {0.5}> {
    a = Relu(x) b = Mul(a, c)
    z = If(k) <then_branch = th () => (float[2,3] t) { p = Exp(b) q = Tanh(p) r = Mul(q, c) t = Neg(r) },
               else_branch = el () => (float[2,3] e) { w = Cos(b) e = Add(w, a) }>
    y = Abs(z) }"""
SCAN = """g (float[5,3] x) => (float[3] y, float[5,3] z) <float[3] c = {0.5, 1, 2}> {
    a = Relu(x) b = Mul(a, c)
    y, z = Scan(c, b) <num_scan_inputs = 1, body = body (float[3] s, float[3] v) => (float[3] t, float[3] o) {
        p = Exp(v) q = Tanh(p) r = Add(q, s) t = Neg(r) o = Sqrt(q) }> }"""
QUANTISED = """g (float[2,3] x) => (float[2,4] y) <float s = {0.1}, int8 z = {0}> {
    a = Relu(x) aq = QuantizeLinear(a, s, z) ad = DequantizeLinear(aq, s, z)
    wd = DequantizeLinear(w, s, z) m = MatMul(ad, wd) mq = QuantizeLinear(m, s, z)
    md = DequantizeLinear(mq, s, z) t = Tanh(md) tq = QuantizeLinear(t, s, z)
    y = DequantizeLinear(tq, s, z) }"""
FUNCTION = """<ir_version: 9, opset_import: ["" : 18, "f" : 1]> g (float[2,3] x) => (float[2,3] y)
    { a = Relu(x) b = f.inner(a) c = Exp(b) y = Sin(c) }
    <domain: "f", opset_import: ["" : 18]>
    inner (v) => (w) { p = Neg(v) q = Tanh(p) r = Sigmoid(q) w = Abs(r) }"""


def of_graph(text: str) -> onnx.ModelProto:
    graph = onnx.parser.parse_graph(text)
    if "(w," in text:
        weights = (np.arange(12).reshape(3, 4) - 6).astype(np.int8)
        graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


MODELS = {
    "Loop": lambda: of_graph(LOOP),
    "If": lambda: of_graph(BRANCHES),
    "Scan": lambda: of_graph(SCAN),
    "QuantizeLinear": lambda: of_graph(QUANTISED),
    "inner": lambda: onnx.parser.parse_model(FUNCTION),
}


@pytest.mark.parametrize("within", MODELS)
def test_a_bug_within_a_body_a_function_or_integers_meets_valid_candidates_alone(judge, within):
    """Tanh beside what it lies in: fewer nodes are left, and each that was asked about is strictly valid."""
    model = MODELS[within]()
    rejected = []

    def is_interesting(candidate: onnx.ModelProto) -> bool:
        try:
            onnx.checker.check_model(candidate, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            rejected.append(str(error))
        nodes = [*walk_nodes(candidate.graph), *(node for each in candidate.functions for node in each.node)]
        return {within, "Tanh"} <= {node.op_type for node in nodes}

    case, predicate = case_of(model), Counting(is_interesting)
    with engine_for(judge, case, predicate) as engine:
        found = run_to_end(engine, subject_of(judge, case))
    assert len(predicate.asked) > 5
    assert rejected == []
    assert is_interesting(found.model)
    assert len(list(walk_nodes(found.model.graph))) <= 2


# Modules of StableHLO: what IREE computes wrongly, and what a command finds in the text

IREE = Target("iree")

MODULE = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %i: tensor<3x1xi32>) -> tensor<3x8xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>)
    -> tensor<4x8xf32>
  %1 = call @twice(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = call @twice(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = stablehlo.constant dense<[[0], [7], [1]]> : tensor<3x1xi32>
  %3 = stablehlo.add %i, %c : tensor<3x1xi32>
  %4 = "stablehlo.gather"(%2, %3) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<3x1xi32>) -> tensor<3x8xf32>
  %5 = stablehlo.tanh %4 : tensor<3x8xf32>
  return %5 : tensor<3x8xf32>
}
func.func private @twice(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.add %x, %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
"""


def reduced(options: Options, folder: Path) -> Reduction:
    path = folder / "module.mlir"
    path.write_text(MODULE)
    case = open_case(path, target=IREE, importer=lambda *file: open_foreign(IREE, Limits(), *file))
    return reduce_case(case, folder / "out", options)


@needs("iree")
def test_a_gather_that_reads_beside_its_operand_is_left_alone(tmp_path):
    done = reduced(Options(target=IREE), tmp_path)
    assert done.after.ops == ("stablehlo.gather",)
    assert done.checks <= 40
    least = Case.load(tmp_path / "out")
    assert sum(np.asarray(value).size for value in least.inputs.values()) <= 4


@needs("iree")
def test_a_users_command_gets_the_text_of_mlir_and_functions_are_written_out(tmp_path):
    seen = tmp_path / "seen"
    command = (
        f"cat {{}} >> {seen}; grep -q 'stablehlo.reduce' {{}} && grep -q 'stablehlo.broadcast_in_dim' {{}}"
    )
    done = reduced(Options(target=IREE, check=command), tmp_path)
    assert sorted(done.after.ops) == ["stablehlo.broadcast_in_dim", "stablehlo.reduce"]
    assert done.after.function_nodes == 0
    assert "func.func public @main" in seen.read_text()
    assert (tmp_path / "out" / "program.stablehlo.json").exists()
