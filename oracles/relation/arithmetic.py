"""How an operator rounds, what it does with NaN, what its specification leaves open."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from onnx import NodeProto, helper

from corpus.values import Value
from oracles.relation.types import ANYTHING, BOOL, DType, Range, extent, is_float

Dims = tuple[int, ...]
TermCount = Callable[[NodeProto, Sequence[Dims | None]], int]
"""How many terms an element of a node's result sums, by the dims of its inputs (None: not known).

Raises IndexError or TypeError if an input is missing or its dims are not known.
"""

OpenCheck = Callable[[NodeProto, Sequence[Value]], bool]
"""Whether the specification leaves open what a node gives on these operands."""

Misfit = Callable[[NodeProto, Sequence[Dims | None]], bool]
"""Whether the dims of a node's inputs (None: not known) do not go together."""


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
    `opens` holds, by their reasons, the checks for results that the specification leaves open, `misfits`, by
    what they say, those of dims that it does not allow and some kernel takes.
    `quantises`: it rounds its input to steps. `has_scale`: its second input is the width of these steps.
    `typed_by` names the attribute that holds the element type of the result.
    `reads_bits`: its result depends on the width of the elements. `asks_dims`: it reads dims and no values.
    `keeps_whole`: whole numbers give a whole number, exact as long as no sum leaves the whole numbers of its
    type. `scales`: by a power of two the result is exact.
    `varies` gives the row of a node whose attributes decide; the others hold where it is absent.
    `dims_at` are the inputs whose elements are dims. `reads_axes`: inputs after the first list axes, pads
    or counts an axis.
    """

    rounding: Rounding
    nonfinite: Nonfinite = Nonfinite.OPEN
    terms: TermCount | None = None
    opens: Mapping[str, OpenCheck] = field(default_factory=dict)
    misfits: Mapping[str, Misfit] = field(default_factory=dict)
    quantises: bool = False
    has_scale: bool = False
    is_random: bool = False
    typed_by: str = ""
    reads_bits: bool = False
    asks_dims: bool = False
    keeps_whole: bool = False
    scales: bool = False
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


def hull(ranges: Iterable[Range]) -> Range:
    """The least range around several."""
    parts = tuple(ranges)
    return Range(min(r.low for r in parts), max(r.high for r in parts), min(r.magnitude_floor for r in parts))


def within_type(dtype: DType, result: Range) -> Range:
    """Fit a range into an element type: integers wrap around, so they can take any value."""
    if is_float(dtype) or dtype is BOOL:
        return result
    bounds = extent(dtype)
    return result if bounds.low <= result.low and result.high <= bounds.high else bounds


def rounded(value: float) -> float:
    """Three significant digits: a bound may differ in its last bit from one C library to the next."""
    return float(f"{value:.3g}")


def symmetric(magnitude: float) -> Range:
    """The range from minus a magnitude to plus it."""
    return Range(-magnitude, magnitude)


def add(a: Range, b: Range) -> Range:
    """The range of sums."""
    return Range(a.low + b.low, a.high + b.high)


def sub(a: Range, b: Range) -> Range:
    """The range of differences."""
    return Range(a.low - b.high, a.high - b.low)


def mul(a: Range, b: Range) -> Range:
    """The range of products."""
    corners = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
    return Range(min(corners), max(corners), a.magnitude_floor * b.magnitude_floor)


def div(a: Range, b: Range) -> Range:
    """Anything, where the divisor is not known to be away from zero."""
    floor = b.magnitude_floor
    if not floor:
        return ANYTHING
    if b.low > 0 or b.high < 0:
        corners = (a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high)
        return Range(min(corners), max(corners))
    return symmetric(a.magnitude / floor)


def power(a: Range, b: Range) -> Range:
    """Needs a base above zero, or an exponent that is known."""
    if a.low <= 0:
        most = _power(a.magnitude, b.high)
        return Range(0 if b.low % 2 == 0 else -most, most)
    corners = [_power(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(corners), max(corners))


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def rising(function: Callable[[float], float]) -> Callable[[Range], Range]:
    """The bound of a function that never falls; an overflow is infinite."""

    def bound(a: Range) -> Range:
        return Range(_guarded(function, a.low), _guarded(function, a.high))

    return bound


def _guarded(function: Callable[[float], float], x: float) -> float:
    try:
        return function(x)
    except OverflowError:
        return math.inf


def magnitude(a: Range) -> Range:
    """The bound of the absolute value."""
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Range(low, a.magnitude, a.magnitude_floor)


def clamp(a: Range, low: float, high: float) -> Range:
    """The range within two limits."""
    return Range(min(max(a.low, low), high), max(min(a.high, high), low))


UNKNOWN_TERMS = 256
"""What is taken where nobody can tell."""

WINDOW_TERMS = 64
"""The most corners that an interpolation weighs: four along each of three axes."""


def of_kernel(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """The elements of a pooling window."""
    kernel = _attribute(node, "kernel_shape")
    return math.prod(kernel) if isinstance(kernel, Sequence) else UNKNOWN_TERMS


def of_conv(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """The elements of one filter, whose weights are `[filters, channels / groups, *kernel]`."""
    return math.prod(_known(dims[1])[1:])


def of_conv_transpose(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """All input channels under the kernel: the weights are `[channels, filters / groups, *kernel]`."""
    weight = _known(dims[1])
    return weight[0] * math.prod(weight[2:])


def of_gemm(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """The dim of the first matrix that a product contracts, transposed or not."""
    return _known(dims[0])[0 if _attribute(node, "transA") else 1]


def of_matmul(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """The last dim of the first operand."""
    return _known(dims[0])[-1]


def of_operands(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """One term an operand."""
    return len(dims)


def of_window(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """The corners that an interpolation weighs."""
    return WINDOW_TERMS


def of_updates(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """Count the terms of a scattered element: itself and every update, since all may hit one place."""
    return 1 + math.prod(_known(dims[1])[: -1 if node.op_type == "ScatterND" else None])


def of_largest(node: NodeProto, dims: Sequence[Dims | None]) -> int:
    """All elements of the larger of the first two inputs: no sum has more terms."""
    return max(math.prod(_known(each)) for each in dims[:2])


def _known(dims: Dims | None) -> Dims:
    if dims is None:
        raise TypeError("the shape is not known")
    return dims


def _attribute(node: NodeProto, name: str) -> int | Sequence[int]:
    found = next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), 0)
    return found if isinstance(found, (int, list)) else 0
