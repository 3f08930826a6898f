"""Results that the texts of ONNX and torch leave open: two implementations may differ and both be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto

from corpus.values import Tensor, Value, widen
from oracles.operators import arithmetic_of


def left_open(node: NodeProto, operands: Sequence[Value]) -> str:
    """Say why the node's result on these operands is not defined; empty if it is defined."""
    for reason, check in arithmetic_of(node).opens.items():
        if check(node, operands):
            return f"{node.op_type}: {reason}"
    return ""


def has_no_scale(node: NodeProto, values: Mapping[str, Value]) -> bool:
    """Whether a node quantises in steps of no width, or of one below 0; `values` by name.

    Nobody means that, and rewrites that move quantisation divide by it: everything after it is open.
    """
    if not arithmetic_of(node).has_scale or len(node.input) < 2:
        return False
    scale = values.get(node.input[1])
    return isinstance(scale, np.ndarray) and not is_scale(scale)


def is_scale(array: Tensor) -> bool:
    """Whether all of it is finite and above 0."""
    wide = widen(array).astype(np.float64)
    return bool((np.isfinite(wide) & (wide > 0)).all())
