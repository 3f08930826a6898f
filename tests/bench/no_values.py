"""Proofs that a program of elementwise operators has no inputs under which every value is finite.

Intervals go forward, by element; a result that is empty within an operator's domain is a proof. Where an
operator gets one value twice, only what is said of that case counts.
"""

from collections.abc import Callable

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]
MOST = 3.4e38
SLACK = 1e-6

DOMAINS = {
    "Log": (1e-45, MOST), "Sqrt": (0.0, MOST), "Acos": (-1.0, 1.0), "Asin": (-1.0, 1.0),
    "Atanh": (-1.0 + 1e-7, 1.0 - 1e-7), "Acosh": (1.0, MOST), "Exp": (-MOST, 88.8),
}  # fmt: skip
RISING: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "Log": np.log, "Sqrt": np.sqrt, "Exp": np.exp, "Asin": np.arcsin, "Atanh": np.arctanh,
    "Acosh": np.arccosh, "Tanh": np.tanh, "Floor": np.floor, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x: np.logaddexp(x, 0), "Relu": lambda x: np.maximum(x, 0),
}  # fmt: skip


def why_none(model: onnx.ModelProto) -> str:
    """The operator that no inputs keep finite; empty where that is not proved."""
    weights = {each.name: numpy_helper.to_array(each).astype(np.float64) for each in model.graph.initializer}
    known: dict[str, Bounds] = {name: (value, value) for name, value in weights.items()}
    for declared in model.graph.input:
        dims = [each.dim_value for each in declared.type.tensor_type.shape.dim]
        known[declared.name] = (np.full(dims, -MOST), np.full(dims, MOST))
    for node in model.graph.node:
        low, high = known[node.input[0]]
        if node.op_type in DOMAINS:
            least, most = DOMAINS[node.op_type]
            low, high = known[node.input[0]] = np.maximum(low, least), np.minimum(high, most)
        if (low > high).any() or _divides_by_zero(node, known):
            return node.op_type
        with np.errstate(all="ignore"):
            known[node.output[0]] = _widened(*_made(node, known, weights))
    return ""


def _divides_by_zero(node: onnx.NodeProto, known: dict[str, Bounds]) -> bool:
    if node.op_type not in ("Reciprocal", "Div"):
        return False
    low, high = known[node.input[-1]]
    return bool(((low == 0) & (high == 0)).any())


def _widened(low: NDArray[np.float64], high: NDArray[np.float64]) -> Bounds:
    """As float32 may have it, rounding included."""
    low, high = np.nan_to_num(low, nan=-MOST), np.nan_to_num(high, nan=MOST)
    return (
        np.clip(low - SLACK * np.abs(low), -MOST, MOST),
        np.clip(high + SLACK * np.abs(high), -MOST, MOST),
    )


def _made(node: onnx.NodeProto, known: dict[str, Bounds], weights: dict[str, NDArray[np.float64]]) -> Bounds:
    low, high = known[node.input[0]]
    name, anything = node.op_type, (np.full(low.shape, -MOST), np.full(low.shape, MOST))
    if len(node.input) == 2:
        return _joined(node, known, weights) or anything
    if name in RISING:
        return RISING[name](low), RISING[name](high)
    around = (low <= 0) & (high >= 0)
    unary: dict[str, Callable[[], Bounds]] = {
        "Acos": lambda: (np.arccos(high), np.arccos(low)),
        "Neg": lambda: (-high, -low),
        "Abs": lambda: (
            np.where(around, 0, np.minimum(abs(low), abs(high))),
            np.maximum(abs(low), abs(high)),
        ),
        "Sin": lambda: (np.full(low.shape, -1.0), np.full(low.shape, 1.0)),
        "Reciprocal": lambda: _inverse(low, high),
    }
    return unary[name]() if name in unary else anything


def _inverse(low: NDArray[np.float64], high: NDArray[np.float64]) -> Bounds:
    across = (low < 0) & (high > 0)
    least = np.where(across | (high == 0), -MOST, 1 / high)
    return least, np.where(across | (low == 0), MOST, 1 / low)


def _joined(
    node: onnx.NodeProto, known: dict[str, Bounds], weights: dict[str, NDArray[np.float64]]
) -> Bounds | None:
    (low, high), (least, most) = (known[name] for name in node.input)
    name, is_twice = node.op_type, node.input[0] == node.input[1]
    if is_twice and name in ("Sub", "Div"):
        value = np.full(low.shape, float(name == "Div"))
        return value, value
    if name == "Add":
        return low + least, high + most
    if name == "Sub":
        return low - most, high - least
    if name == "MatMul" and node.input[1] in weights:
        up, down = np.maximum(least, 0), np.minimum(least, 0)
        return low @ up + high @ down, high @ up + low @ down
    if name == "Div":
        least, most = _inverse(least, most)
    if name in ("Mul", "Div"):
        ends = [one * other for one in (low, high) for other in (least, most)]
        found = np.minimum.reduce(ends), np.maximum.reduce(ends)
        return (np.maximum(found[0], 0), found[1]) if is_twice else found
    if name == "Pow" and (low >= 0).all():
        # x to the x is never below e to the -1/e
        return np.full(low.shape, 0.69 if is_twice else 0.0), np.full(low.shape, MOST)
    return None
