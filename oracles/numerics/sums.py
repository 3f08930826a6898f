"""How far the order of a sum may move its result: the number of terms, and the sum of their magnitudes.

Kernels add the same terms in different orders, in blocks or with fused multiply-adds. The error of each order
is relative to the sum of the *magnitudes* of the terms, which cancellation leaves far above the result, and
grows with their number K: at worst as K, as a rule as its square root (Higham, Accuracy and Stability of
Numerical Algorithms, 4.2).
"""

from __future__ import annotations

import math

from onnx import NodeProto

from oracles.numerics.value_types import Types, static_dims
from oracles.operators import arithmetic_of
from oracles.relation.arithmetic import Dims
from oracles.relation.term_counts import UNKNOWN_TERMS, of_largest


def growth(terms: int) -> float:
    """The error of a sum of `terms` terms, in units of the last place of the sum of their magnitudes."""
    return min(float(terms), 8.0 * math.sqrt(terms))


def terms_of(node: NodeProto, types: Types) -> int:
    """Count the terms in one element of the result; `UNKNOWN_TERMS` if dims or inputs are missing."""
    dims = [_dims(types, name) for name in node.input]
    count = arithmetic_of(node).terms or of_largest
    try:
        return max(1, count(node, dims))
    except (IndexError, TypeError):
        return UNKNOWN_TERMS


def _dims(types: Types, name: str) -> Dims | None:
    return static_dims(types[name]) if name in types else None
