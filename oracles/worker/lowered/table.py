"""ONNX operators in terms of torch: the table of lowerings, by the operator's name, of all families.

What the table does not have is refused by `Unsupported`.
"""

from __future__ import annotations

from oracles.worker.lowered.elementwise import ELEMENTWISE
from oracles.worker.lowered.layout import LAYOUT
from oracles.worker.lowered.lowering import Lowering
from oracles.worker.lowered.networks import NETWORKS
from oracles.worker.lowered.reductions import REDUCTIONS

TABLE: dict[str, Lowering] = {**ELEMENTWISE, **REDUCTIONS, **LAYOUT, **NETWORKS}
