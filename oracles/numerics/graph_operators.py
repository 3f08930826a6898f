"""What the judge knows of the operators of torch and Relax programs, by the words of their names.

These programs call thousands of functions and methods, so there is no row for each: `torch.Tensor.sum` and
`relax.sum` are known by the word `sum`.

A float that becomes an integer which cannot hold it: C++, and so torch and TVM, give no rule for that, and
processors wrap, saturate or give their least integer. Memory that nobody has written to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import numpy as np

from corpus.graphs.program import Binding, GraphProgram
from corpus.values import Value
from oracles.relation.open_checks import is_beyond

CASTS = re.compile(
    r"\.(to|type|type_as|int|long|short|char|byte|_?to_copy|convert_element_type|astype)(\.|$)"
)
"""Operators that convert an element type."""

UNWRITTEN = re.compile(r"\.(new_)?empty(_like|_strided|_permuted)?(\.|$)")
"""Operators that give memory as it is found."""

ACCUMULATING = re.compile(
    r"matmul|\.mm|bmm|addmm|linear|conv|sum|mean|var\b|std|norm|softmax|attention|einsum|dot|prod|pool|loss|fft"
    r"|interpolate|resize|solve|inv|det|call_tir",
    re.IGNORECASE,
)
"""Operators that sum many terms, in any order."""

RANDOM = re.compile(r"rand|dropout|bernoulli|multinomial|normal_|exponential", re.IGNORECASE)
"""Operators that draw random numbers."""


def writes(binding: Binding) -> bool:
    """Whether an operator's name, or an operand of it, says that it writes to what it reads."""
    words = binding.op.split(".")
    has_mark = any(word.endswith("_") and not word.endswith("__") for word in words)
    return has_mark or words[-1] in ("setitem", "out") or "out" in binding.kwargs


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
