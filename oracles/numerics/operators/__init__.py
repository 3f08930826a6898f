"""The table of operators: one row for each that ONNX, com.microsoft and torch's own operator set define.

A row says what rounds, sums, chooses, draws, quantises, or is left open; `row.py` explains the columns, and
`onnx_rows.py`, `microsoft_rows.py`, `aten_rows.py` hold the rows. An operator without a row is `UNKNOWN`:
no verdict may rest on what is not known of it. The judge, the generators and the reducer all ask here.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto

from oracles.numerics.operators.aten_rows import ATEN
from oracles.numerics.operators.microsoft_rows import MICROSOFT
from oracles.numerics.operators.onnx_rows import ML, ONNX, PREVIEW, TRAINING
from oracles.numerics.operators.row import UNKNOWN, Operator
from oracles.worker.onnx.domain import DOMAIN

OPERATORS: Mapping[str, Mapping[str, Operator]] = {
    "": ONNX,
    "ai.onnx": ONNX,
    "ai.onnx.ml": ML,
    "ai.onnx.preview": PREVIEW,
    "ai.onnx.preview.training": TRAINING,
    "com.microsoft": MICROSOFT,
    DOMAIN: ATEN,
}
"""The rows by domain and name."""


def operator_of(node: NodeProto) -> Operator:
    """Return the row of a node's operator, for its attributes.

    `UNKNOWN` if it has none, as calls of a model's own functions have.
    """
    row = OPERATORS.get(node.domain, {}).get(node.op_type, UNKNOWN)
    return row if row.varies is None else row.varies(node)
