"""What the operands of an operator must be for its result to be finite: the own domains, and more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from generators.language.types import Range
from generators.ops import all_operators


class Guard(NamedTuple):
    """Bounds on one operand, by its place."""

    place: int
    range: Range


_AWAY = Range(-math.inf, math.inf, 0.1)
_MORE: Mapping[str, tuple[Guard, ...]] = {
    "Div": (Guard(1, _AWAY),),
    "Mod": (Guard(1, _AWAY),),
    "Pow": (Guard(0, Range(0.1, 10)), Guard(1, Range(-4, 4))),
    "Exp": (Guard(0, Range(-10, 10)),),
}
"""What the generator sees to when it samples operands, rather than by a domain of the one in focus."""


@cache
def guards() -> Mapping[str, tuple[Guard, ...]]:
    """Map ONNX operators to their guards."""
    own = {
        operator.name: (Guard(0, operator.domain),)
        for operator in all_operators()
        if operator.is_standard and operator.domain is not None
    }
    return {**own, **_MORE}
