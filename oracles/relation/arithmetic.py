"""How an operator rounds, what it does with NaN, what its specification leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from onnx import NodeProto

from corpus.values import Value

Dims = tuple[int, ...]
TermCount = Callable[[NodeProto, Sequence[Dims | None]], int]
"""How many terms an element of a node's result sums, by the dims of its inputs (None: not known).

Raises IndexError or TypeError if an input is missing or its dims are not known.
"""

OpenCheck = Callable[[NodeProto, Sequence[Value]], bool]
"""Whether the specification leaves open what a node gives on these operands."""


class Rounding(Enum):
    """The rounding by which two right implementations of an operator may differ."""

    NOTHING = "the result holds values of the inputs, or whole numbers"
    RESULT = "a few units in the last place of the result"
    UNIT = "a few units in the last place of the result plus one: kernels may compute 2 sigmoid(2x) - 1"
    TERMS = "a sum: relative to the sum of the magnitudes, which the operator gives on magnitudes"
    INSIDE = "sums inside: relative to the greatest element of the result"
    LOGARITHM = "the logarithm of a sum: the sum's relative error becomes an absolute one"
    NARROWING = "as RESULT if the result's type is shorter than the operand's, else NOTHING"
    UNKNOWN = "nobody has looked: rounding of unknown size, so only float64 can decide"


class Nonfinite(Enum):
    """The result of an operator for NaN and infinity."""

    OPEN = "implementations may differ"
    MOVED = "hands them on like any other value"
    DEFINED = "looks at them, and the specification says what it gives"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The facts about one operator for the judge, the generators and the reducer.

    `terms` counts the terms of an element's sum; without it the larger of the first two inputs does.
    `opens` holds, by their reasons, the checks for results that the specification leaves open.
    `quantises`: it rounds its input to steps. `has_scale`: its second input is the width of these steps.
    `typed_by` names the attribute that holds the element type of the result.
    `reads_bits`: its result depends on the width of the elements. `asks_dims`: it reads dims and no values.
    `commutes`: its two inputs may change places, and no bit changes.
    `varies` gives the row of a node whose attributes decide; the others hold where it is absent.
    `dims_at` are the inputs whose elements are dims. `reads_axes`: inputs after the first list axes, pads
    or counts an axis.
    """

    rounding: Rounding
    nonfinite: Nonfinite = Nonfinite.OPEN
    terms: TermCount | None = None
    opens: Mapping[str, OpenCheck] = field(default_factory=dict)
    quantises: bool = False
    has_scale: bool = False
    is_random: bool = False
    typed_by: str = ""
    reads_bits: bool = False
    asks_dims: bool = False
    commutes: bool = False
    dims_at: tuple[int, ...] = ()
    reads_axes: bool = False
    varies: Callable[[NodeProto], Arithmetic] | None = None

    @property
    def is_known(self) -> bool:
        """Whether somebody has said how it rounds."""
        return self.rounding is not Rounding.UNKNOWN

    @property
    def is_sum(self) -> bool:
        """Whether the order of a sum moves its result."""
        return self.rounding in (Rounding.TERMS, Rounding.INSIDE, Rounding.LOGARITHM)

    @property
    def defines_nonfinite(self) -> bool:
        """Whether a difference in its NaNs and infinities is no matter of taste."""
        return self.nonfinite is not Nonfinite.OPEN


MOVES = Arithmetic(Rounding.NOTHING, Nonfinite.MOVED)
CHOOSES = Arithmetic(Rounding.NOTHING, Nonfinite.DEFINED)
WHOLE = Arithmetic(Rounding.NOTHING)
ROUNDS = Arithmetic(Rounding.RESULT)
ROUNDS_ABOUT_ONE = Arithmetic(Rounding.UNIT)
SUMS = Arithmetic(Rounding.TERMS)
SUMS_INSIDE = Arithmetic(Rounding.INSIDE)
LOGARITHM_OF_SUM = Arithmetic(Rounding.LOGARITHM)
UNKNOWN = Arithmetic(Rounding.UNKNOWN)


def text_attribute(node: NodeProto, name: str, default: str) -> str:
    """Read an attribute of a node that is a text."""
    found = next((each.s for each in node.attribute if each.name == name), None)
    return default if found is None else bytes(found).decode("utf-8", "replace")
