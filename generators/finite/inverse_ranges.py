"""Interval arithmetic backwards: from the range that a result must have to one for an operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import onnx

from corpus.values import Value
from generators.language.types import Range

_MOVERS = frozenset(
    ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Expand", "Cast")
) | {"Concat"}
"""Their results are elements of their operands."""


def _same(wanted: Range) -> Range:
    return wanted


def _above_zero(wanted: Range) -> Range:
    return Range(max(wanted.low, 0.0), wanted.high, wanted.away)


def _exp(x: float) -> float:
    return math.exp(min(x, 700.0))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _rising(inverse: Callable[[float], float]) -> Callable[[Range], Range]:
    return lambda wanted: Range(inverse(wanted.low), inverse(wanted.high))


_UNARY: Mapping[str, Callable[[Range], Range]] = {
    **dict.fromkeys(_MOVERS, _same),
    "Relu": _above_zero,
    "Abs": _above_zero,
    "Neg": lambda wanted: Range(-wanted.high, -wanted.low, wanted.away),
    "Exp": _rising(_log),
    "Log": _rising(_exp),
    "Sqrt": _rising(lambda x: min(max(x, 0.0), 1e100) ** 2),
}


def before(node: onnx.NodeProto, wanted: Range, values: Mapping[str, Value]) -> Iterator[tuple[str, Range]]:
    """Operands with ranges that put the result within the wanted one, the other operands as they are."""
    if node.op_type in _UNARY:
        found = _UNARY[node.op_type](wanted)
        names = node.input if node.op_type == "Concat" else node.input[:1]
        if found.low < found.high:
            yield from ((name, found) for name in names)
    elif node.op_type in ("Add", "Sub", "Mul", "Div") and len(node.input) == 2:
        for place in (0, 1):
            other = _extremes(values.get(node.input[1 - place]))
            solved = _solved(node.op_type, place, wanted, *other) if other else None
            if solved is not None and solved.low < solved.high:
                yield node.input[place], solved


def _extremes(value: Value) -> tuple[float, float] | None:
    if not isinstance(value, np.ndarray) or not value.size or value.dtype.kind not in "iuf":
        return None
    low, high = float(value.min()), float(value.max())
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _solved(name: str, place: int, wanted: Range, least: float, most: float) -> Range | None:
    """Return the range of one operand, given the extremes of the other; None where none is known."""
    low, high, away = wanted
    if away and not (low > 0 or high < 0):
        low, high = away, max(high, away)  # one side of zero is enough
    if name == "Add":
        return Range(low - least, high - most)
    if name == "Sub":
        return Range(low + most, high + least) if place == 0 else Range(most - high, least - low)
    if least <= 0 <= most:
        return None
    if name == "Mul":
        return _over(low, high, least, most)
    return _over(low, high, 1 / most, 1 / least) if place == 0 else None


def _over(low: float, high: float, least: float, most: float) -> Range:
    """Return the values that stay in bounds when multiplied by anything from `least` to `most`."""
    if most < 0:
        low, high, least, most = -high, -low, -most, -least
    return Range(low / (least if low > 0 else most), high / (most if high > 0 else least))
