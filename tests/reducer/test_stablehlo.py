"""Modules of StableHLO, reduced: what IREE computes wrongly, and what a command finds in the text."""

from pathlib import Path

import numpy as np

from corpus.case import Case
from corpus.load import open_case
from corpus.target import Target
from oracles.sandbox.scripts import open_foreign
from oracles.verdict import Limits
from reducer.api import Reduction, reduce_case
from reducer.course import Options
from tests.helpers.commands import needs

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
