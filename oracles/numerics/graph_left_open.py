"""What graphs of other formats than ONNX leave open.

A float that becomes an integer which cannot hold it: C++, and so torch and TVM, give no rule for that, and
processors wrap, saturate or give their least integer. Memory that nobody has written to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from corpus.graphs.program import Binding, GraphProgram
from corpus.values import Value
from oracles.numerics.graph_operators import CASTS, UNWRITTEN, writes
from oracles.relation.open_checks import is_beyond


def left_open_by_graph(program: GraphProgram, wanted: Collection[str], values: Mapping[str, Value]) -> str:
    """Say why one of the wanted bindings is free to give any value, by its operands; empty if none is."""
    bindings = [binding for binding in program.main.bindings if binding.name in wanted]
    if any(_overflows(binding, values) for binding in bindings):
        return "a float that does not fit into the integer it becomes"
    filled = {name for binding in program.main.bindings if writes(binding) for name in binding.reads}
    if any(UNWRITTEN.search(binding.op) and binding.name not in filled for binding in bindings):
        return "memory that was never written to"
    return ""


def _overflows(binding: Binding, values: Mapping[str, Value]) -> bool:
    made = values.get(binding.name)
    read = values.get(binding.reads[0]) if binding.reads and CASTS.search(binding.op) else None
    return isinstance(made, np.ndarray) and isinstance(read, np.ndarray) and is_beyond(read, made.dtype)
