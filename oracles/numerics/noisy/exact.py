"""Results that no rounding enters: floats that are whole numbers, and what is scaled by powers of two.

The operands as they were recorded tell. A sum of whole numbers is exact in any order, and so under any
rewrite, as long as the magnitudes of its terms stay below the first whole number that its type lacks.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from corpus.values import Tensor, Value, widen
from oracles.numerics.compare import epsilon
from oracles.numerics.input_noise import Types, element_of
from oracles.numerics.noisy.perturbation import terms_of
from oracles.operators import arithmetic_of

Wide = NDArray[np.float64]

HEAD = 64
"""Elements of an operand that are looked at before all are."""


def exact_results(nodes: Iterable[NodeProto], types: Types, values: Mapping[str, Value]) -> frozenset[str]:
    """The names of such results, by the values that were recorded."""
    return frozenset(node.output[0] for node in nodes if node.output and _is_exact(node, types, values))


def _is_exact(node: NodeProto, types: Types, values: Mapping[str, Value]) -> bool:
    row = arithmetic_of(node)
    if not (row.keeps_whole or row.scales):
        return False
    names = [node.output[0], *filter(None, node.input)]
    floats = [value for value in map(values.get, names) if isinstance(value, np.ndarray) and _is_known(value)]
    if len(floats) < len(names):
        return False
    result, *operands = floats
    if not _may_be_exact(operands):
        return False
    wide = [_wide(operand) for operand in operands]
    if row.scales and _is_scaled(node.op_type, wide, _wide(result)):
        return True
    return row.keeps_whole and _is_whole(node, wide, terms_of(node, types), 2 / epsilon(result.dtype))


def _may_be_exact(operands: Iterable[Tensor]) -> bool:
    """Whether the first elements are whole, or all those of an operand powers of two."""
    heads = [_wide(operand.reshape(-1)[:HEAD]) for operand in operands]
    return all(map(_are_whole, heads)) or any(map(_are_scales, heads))


def _is_whole(node: NodeProto, operands: Iterable[Wide], terms: int, limit: float) -> bool:
    """Whether all numbers are whole, and no sum of so many products of them passes the limit."""
    factors = [each.f for each in node.attribute if each.HasField("f")]
    if not all(factor.is_integer() for factor in factors) or not all(map(_are_whole, operands)):
        return False
    greatest = [float(np.abs(operand).max(initial=0.0)) for operand in operands]
    count = terms if arithmetic_of(node).is_sum else 2
    return count * math.prod(max(1.0, abs(each)) for each in (*greatest, *factors)) <= limit


def _is_scaled(operator: str, operands: Sequence[Wide], result: Wide) -> bool:
    """Whether a factor or the divisor is all powers of two or 0, and nothing is lost at the type's ends."""
    left, right = operands
    with np.errstate(all="ignore"):
        true = left / right if operator == "Div" else left * right
    scales = _are_scales(right) or (operator == "Mul" and _are_scales(left))
    return scales and np.array_equal(true, result)


def _are_scales(operand: Wide) -> bool:
    return bool(np.isin(np.abs(np.frexp(operand)[0]), (0.0, 0.5)).all())


def _are_whole(operand: Wide) -> bool:
    return bool((operand == np.rint(operand)).all() and np.isfinite(operand).all())


def _is_known(value: Tensor) -> bool:
    return element_of(value.dtype) is not None


def _wide(value: Tensor) -> Wide:
    return widen(value).astype(np.float64)
