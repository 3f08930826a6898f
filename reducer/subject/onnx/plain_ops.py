"""Operators by how much a reader must know of them: the ones that need no explanation, and the others."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto

PLAINNESS: Mapping[str, int] = {"Identity": 0, "Abs": 1, "Not": 1, "Cast": 1, "Add": 2, "And": 2}
"""Strangeness by operator of ONNX's own domain."""

OTHER = 3


def strangeness(node: NodeProto) -> int:
    """0 for what hands a value on, a little for the plainest operators, most for any other."""
    return OTHER if node.domain else PLAINNESS.get(node.op_type, OTHER)
