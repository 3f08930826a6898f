"""Models of every kind reduce to what the failure needs: sequences, strings, packed types, domains."""

import math
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.load import open_case
from corpus.target import Target
from corpus.values import Value
from oracles.sandbox.scripts import open_foreign
from oracles.verdict import Limits
from reducer.api import Reduction, reduce_case
from reducer.course import Options
from tests.helpers.commands import needs
from tests.helpers.models import model_of as weighted
from tests.reducer.driving import Counting, case_of, engine_for, has, model_of, run_to_end, subject_of

KINDS = {
    "SequenceInsert": """g (float[4] x) => (float[] y) { a = Abs (x) b = Neg (a) s = SequenceConstruct (b, a)
        n = Constant <value_int = 1> () t = SequenceInsert (s, x) e = SequenceAt (t, n) y = Neg (e) }""",
    "SequenceAt": """g (seq(float[2]) s) => (float[] y) { n = Constant <value_int = 1> ()
        e = SequenceAt (s, n) a = Abs (e) y = Neg (a) }""",
    "Optional OptionalGetElement": """g (float[4] x) => (float[4] y) { a = Abs (x) o = Optional (a)
        e = OptionalGetElement (o) b = Neg (e) y = Identity (b) }""",
    "StringNormalizer": """g (string[6] a) => (int64[N] y) { b = Identity (a) c = StringNormalizer
        <case_change_action = "LOWER"> (b) u, i, v, n = Unique (c) d = Identity (v) y = Neg (d) }""",
    "QuickGelu": """g (float[2,4] x) => (float[2,4] y) { a = Abs (x) b = com.microsoft.Gelu (a)
        c = com.microsoft.QuickGelu (b) d = Neg (c) y = Identity (d) }""",
}
"""What must stay, amid other nodes."""
INPUTS: dict[str, dict[str, Value]] = {
    "SequenceAt": {"s": [np.ones(2, np.float32), np.full(2, 2, np.float32)]},
    "StringNormalizer": {"a": np.array(["Ab", "c", "Ab", "D", "e", "c"], dtype=object)},
}
QUANTISING = """g (float[2,3] x) => (float[2,3] y) <float scale = {0.5}> {
    a = Abs (x) b = Neg (a) q = QuantizeLinear (b, scale, zero)
    d = DequantizeLinear (q, scale, zero) e = Abs (d) y = Neg (e) }"""
WEIGHT = """g (float[4,4] x) => (float[4,4] y) <float scale = {0.5}> {
    a = Abs (x) d = DequantizeLinear (zero, scale) m = MatMul (a, d) y = Neg (m) }"""


def packed(text: str, element: int, *dims: int) -> Case:
    zero = helper.make_tensor("zero", element, dims, [0] * math.prod(dims))
    return case_of(weighted(text, 21, 10, zero=zero))


@pytest.mark.parametrize(
    ("case", "needs"),
    [
        *((case_of(model_of(text), INPUTS.get(needs)), needs) for needs, text in KINDS.items()),
        (packed(QUANTISING, TensorProto.INT4), "QuantizeLinear DequantizeLinear"),
        (packed(QUANTISING, TensorProto.FLOAT8E4M3FN), "QuantizeLinear DequantizeLinear"),
        (packed(WEIGHT, TensorProto.INT4, 4, 4), "DequantizeLinear MatMul"),
    ],
    ids=[*KINDS, "int4", "float8", "a weight of four bits"],
)
def test_what_the_failure_needs_is_left(judge, case, needs):
    with engine_for(judge, case, Counting(has(*needs.split()))) as engine:
        found = run_to_end(engine, subject_of(judge, case))
    assert sorted(node.op_type for node in found.nodes) == sorted(needs.split())
    assert engine.is_minimal


def test_a_model_that_no_backend_runs_is_reduced_by_structure(tmp_path):
    """Nor does any inference type it."""
    text = """g (float[2,4] x) => (float[2,4] y) { a = Abs (x) b = house.own.Fold <depth = 3> (a)
        c = house.own.Twist (b) d = Neg (c) y = Identity (d) }"""
    case = case_of(model_of(text, '<ir_version: 8, opset_import: ["" : 17, "house.own" : 3]>'))
    done = reduce_case(case, tmp_path / "out", Options(check="grep -q Twist {}"))
    assert [node.op_type for node in parse(done.case.program).graph.node] == ["Twist"]
    assert done.is_minimal


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
