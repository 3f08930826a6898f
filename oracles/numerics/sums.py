"""How far the order of a sum may move its result: the number of terms, and the sum of their magnitudes.

Kernels add the same terms in different orders, in blocks or with fused multiply-adds. The error of each order
is relative to the sum of the *magnitudes* of the terms, which cancellation leaves far above the result, and
grows with their number K: at worst as K, as a rule as its square root (Higham, Accuracy and Stability of
Numerical Algorithms, 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from onnx import NodeProto, helper

from oracles.numerics import aten_operators
from oracles.numerics.value_types import Types, static_dims

_LINEAR = """
    AveragePool Conv ConvTranspose CumSum Einsum Gemm GlobalAveragePool MatMul Mean ReduceL1 ReduceL2
    ReduceMean ReduceSum ReduceSumSquare Sum
"""
LINEAR = aten_operators.LINEAR | frozenset(_LINEAR.split())
"""Operators that give the sum of the magnitudes of their terms when they get magnitudes."""

_NONLINEAR = """
    Attention BatchNormalization GRU GroupNormalization Hardmax InstanceNormalization LSTM LayerNormalization
    LogSoftmax LpNormalization LpPool LRN MeanVarianceNormalization RMSNormalization RNN ReduceLogSum
    ReduceLogSumExp ReduceProd Resize RotaryEmbedding Softmax SkipLayerNormalization
"""
NONLINEAR = aten_operators.NONLINEAR | frozenset(_NONLINEAR.split())
"""Operators that sum inside: what that does to an element is bounded by the greatest one of the result."""

LOGARITHMIC = aten_operators.LOGARITHMIC | frozenset(["LogSoftmax", "ReduceLogSum", "ReduceLogSumExp"])
"""Those of them whose result is the logarithm of a sum: a relative error becomes an absolute one."""

_SHIFTED = "Asinh Atanh Celu Elu Erf Gelu Mish Selu Sinh Softplus Tanh"
SHIFTED = aten_operators.SHIFTED | frozenset(_SHIFTED.split())
"""Operators that may add one inside, as log(1 + exp(x)), 2 sigmoid(2x) - 1: the last place of one counts."""

UNKNOWN_TERMS = 256
Dims = tuple[int, ...]


def growth(terms: int) -> float:
    """The error of a sum of so many terms, in units of the last place of the sum of their magnitudes."""
    return min(float(terms), 8.0 * math.sqrt(terms))


def terms_of(node: NodeProto, types: Types) -> int:
    """How many terms one element of the result sums; a bound where the operator has no count of its own."""
    dims = [_dims(types, name) for name in node.input]
    count = _COUNTS.get(node.op_type, _largest)
    try:
        return max(1, count(node, dims))
    except (IndexError, TypeError):  # an input is not there, or its shape is not known
        return UNKNOWN_TERMS


def _dims(types: Types, name: str) -> Dims | None:
    return static_dims(types[name]) if name in types else None


def _known(dims: Dims | None) -> Dims:
    if dims is None:
        raise TypeError("the shape is not known")
    return dims


def _attribute(node: NodeProto, name: str) -> int | Sequence[int]:
    found = next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), 0)
    return found if isinstance(found, (int, list)) else 0


def _of_gemm(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    return _known(dims[0])[0 if _attribute(node, "transA") else 1]


def _of_kernel(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    kernel = _attribute(node, "kernel_shape")
    return math.prod(kernel) if isinstance(kernel, Sequence) else UNKNOWN_TERMS


def _of_conv_transpose(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    weight = _known(dims[1])
    return weight[0] * math.prod(weight[2:])


def _largest(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    return max(math.prod(_known(each)) for each in dims[:2])


_COUNTS: dict[str, Callable[[NodeProto, Sequence[Dims | None]], int]] = {
    "AveragePool": _of_kernel,
    "Conv": lambda node, dims: math.prod(_known(dims[1])[1:]),
    "ConvTranspose": _of_conv_transpose,
    "Gemm": _of_gemm,
    "LpPool": _of_kernel,
    "MatMul": lambda node, dims: _known(dims[0])[-1],
    "Mean": lambda node, dims: len(dims),
    "Resize": lambda node, dims: 64,
    "Sum": lambda node, dims: len(dims),
}
