"""Nodes that give constants, for programs that the judge builds."""

from __future__ import annotations

import onnx
from onnx import NodeProto, helper

from corpus.values import Tensor


def constant(name: str, value: Tensor) -> NodeProto:
    """Return a node that gives a constant tensor."""
    return helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(value))


def scalar(name: str, value: float, element: int) -> NodeProto:
    """Return a node that gives a constant of rank 0."""
    return helper.make_node("Constant", [], [name], value=helper.make_tensor(name, element, [], [value]))
