"""How many terms one element of a result sums, for operators that say so by their attributes and dims."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import NodeProto, helper

from oracles.relation.arithmetic import Dims

UNKNOWN_TERMS = 256
"""What is taken where nobody can tell."""

WINDOW_TERMS = 64
"""The most corners that an interpolation weighs: four along each of three axes."""


def of_kernel(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """The elements of a pooling window."""
    kernel = _attribute(node, "kernel_shape")
    return math.prod(kernel) if isinstance(kernel, Sequence) else UNKNOWN_TERMS


def of_conv(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """The elements of one filter, whose weights are `[filters, channels / groups, *kernel]`."""
    return math.prod(_known(dims[1])[1:])


def of_conv_transpose(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """All input channels under the kernel: the weights are `[channels, filters / groups, *kernel]`."""
    weight = _known(dims[1])
    return weight[0] * math.prod(weight[2:])


def of_gemm(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """The dim of the first matrix that a product contracts, transposed or not."""
    return _known(dims[0])[0 if _attribute(node, "transA") else 1]


def of_matmul(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """The last dim of the first operand."""
    return _known(dims[0])[-1]


def of_operands(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """One term an operand."""
    return len(dims)


def of_window(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """The corners that an interpolation weighs."""
    return WINDOW_TERMS


def of_updates(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """Count the terms of a scattered element: itself and every update, since all may hit one place."""
    return 1 + math.prod(_known(dims[1])[: -1 if node.op_type == "ScatterND" else None])


def of_largest(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """All elements of the larger of the first two inputs: no sum has more terms."""
    return max(math.prod(_known(each)) for each in dims[:2])


def _known(dims: Dims | None) -> Dims:
    if dims is None:
        raise TypeError("the shape is not known")
    return dims


def _attribute(node: NodeProto, name: str) -> int | Sequence[int]:
    found = next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), 0)
    return found if isinstance(found, (int, list)) else 0
