"""Sums: the number of their terms, as the noise needs it."""

from __future__ import annotations

import onnx
import pytest

from oracles.numerics.noisy.perturbation import growth, terms_of
from oracles.numerics.operators.term_counts import UNKNOWN_TERMS
from oracles.numerics.value_types import tensor_types


@pytest.mark.parametrize(
    ("graph", "terms"),
    [
        ("g (float[2,7] a, float[7,3] b) => (float[2,3] y) { y = MatMul(a, b) }", 7),
        ("g (float[7,2] a, float[7,3] b) => (float[2,3] y) { y = Gemm<transA = 1>(a, b) }", 7),
        ("g (float[1,4,5,5] a, float[6,2,3,3] b) => (y) { y = Conv<group = 2>(a, b) }", 18),
        ("g (float[1,4,5,5] a, float[4,2,3,3] b) => (y) { y = ConvTranspose(a, b) }", 36),
        ("g (float[1,4,5,5] a) => (y) { y = AveragePool<kernel_shape = [2, 3]>(a) }", 6),
        ("g (float[2,5] a) => (y) { y = ReduceSum(a) }", 10),
        ("g (float[2,N] a) => (y) { y = ReduceSum(a) }", UNKNOWN_TERMS),
    ],
)
def test_terms_are_counted_from_attributes_and_shapes(graph: str, terms: int) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    assert terms_of(model.graph.node[0], tensor_types(model)) == terms


def test_error_grows_with_the_terms_and_then_with_their_root() -> None:
    assert growth(1) == 1
    assert growth(16) == 16
    assert growth(10_000) == 800
