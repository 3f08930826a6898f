"""What the judge knows of the operators of torch and Relax programs, by the words of their names.

These programs call thousands of functions and methods, so there is no row for each: `torch.Tensor.sum` and
`relax.sum` are known by the word `sum`.
"""

from __future__ import annotations

import re

from corpus.graphs.program import Binding

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
    """Return whether an operator's name, or an operand of it, says that it writes to what it reads."""
    words = binding.op.split(".")
    has_mark = any(word.endswith("_") and not word.endswith("__") for word in words)
    return has_mark or words[-1] in ("setitem", "out") or "out" in binding.kwargs
