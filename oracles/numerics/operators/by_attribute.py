"""Rows of operators whose attributes decide how they round."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto

from oracles.numerics.operators.open_checks import TWICE
from oracles.numerics.operators.row import UNKNOWN, Operator, Rounding
from oracles.numerics.operators.term_counts import of_updates, of_window

REDUCTIONS: Mapping[str, Operator] = {
    "none": Operator(Rounding.NOTHING, opens=TWICE),
    "add": Operator(Rounding.TERMS, terms=of_updates),
    "mul": Operator(Rounding.INSIDE, terms=of_updates),
    "max": Operator(Rounding.NOTHING),
    "min": Operator(Rounding.NOTHING),
}
"""What a scatter does with updates to one place."""

MODES: Mapping[str, Operator] = {
    "nearest": Operator(Rounding.NOTHING, reads_axes=True),
    "linear": Operator(Rounding.INSIDE, terms=of_window, reads_axes=True),
}
"""What an upsampling makes of its corners."""


def scattering(node: NodeProto) -> Operator:
    """Return the row of a scatter: it sums or multiplies if its `reduction` says so."""
    return REDUCTIONS.get(_text(node, "reduction", "none"), UNKNOWN)


def upsampling(node: NodeProto) -> Operator:
    """Return the row of an upsampling: it weighs corners if its `mode` says so."""
    return MODES.get(_text(node, "mode", "nearest"), UNKNOWN)


def _text(node: NodeProto, name: str, default: str) -> str:
    found = next((each.s for each in node.attribute if each.name == name), None)
    return default if found is None else bytes(found).decode("utf-8", "replace")
