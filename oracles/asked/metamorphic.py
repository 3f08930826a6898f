"""Metamorphic rewrites: the same function written otherwise, optimised, gives the same results."""

from __future__ import annotations

from collections.abc import Iterator

from corpus.case import Case
from corpus.formats.onnx import parse
from oracles.asked import Asking, Way, named
from oracles.numerics.rewrites import REWRITES

NAME = "metamorphic"


def ways(case: Case, asking: Asking) -> Iterator[Way]:
    """The optimised run of every rewrite that finds something to change."""
    if case.format != "onnx" or case.external:
        return
    model = parse(case.program)
    for what, rewrite in REWRITES.items():
        found = rewrite(model, case.inputs)
        if found is not None:
            rewritten, inputs = found
            program = rewritten.SerializeToString(deterministic=True)
            yield Way(named(NAME, asking.optimised, what), program, inputs)
