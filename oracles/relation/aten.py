"""What entries for operators of torch itself share: element types, types of results, ranges."""

import math
from collections.abc import Callable, Mapping, Sequence

from oracles.relation.arithmetic import SUMS_INSIDE, Arithmetic, symmetric, within_type
from oracles.relation.operator import Operator, RangeRule, Sampler, TypeRule, same_type, sample_alone
from oracles.relation.program import MAX_RANK, Attribute, Call, DTypeFamily, Kind, Operand, Scope
from oracles.relation.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    DType,
    Range,
    Shape,
    TensorType,
    broadcast,
    extent,
    is_float,
)
from oracles.worker.onnx import DOMAIN

FLOATING = (F32, F64, F16, BF16)
WIDE = (F32, F64)
INTEGRAL = (I64, I32, I16, I8, U8)
NUMBERS = FLOATING + INTEGRAL
EVERY = (*NUMBERS, BOOL)
"""What torch computes in; its wider unsigned integers have few kernels."""

Shapes = Callable[[Call], Sequence[Shape]]
Attributes = Mapping[str, Attribute]


def aten(
    name: str,
    kind: Kind,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    sample: Sampler = sample_alone,
    infer: TypeRule = same_type,
    bound: RangeRule | None = None,
    *,
    ranks: range = range(MAX_RANK + 1),
    domain: Range | None = None,
) -> Operator:
    """An entry; without `bound` results are as large as the first operand."""
    bound = bound or same_magnitude
    return Operator(
        f"{DOMAIN}.{name}",
        kind,
        arithmetic,
        dtypes,
        sample,
        infer,
        bound,
        ranks,
        domain,
        realm=DTypeFamily.ATEN,
    )


def summing(
    name: str,
    sample: Sampler,
    shape: Callable[[Call], Shape],
    magnitude: Callable[[Call], float],
    ranks: range,
    dtypes: tuple[DType, ...] = FLOATING,
    arithmetic: Arithmetic = SUMS_INSIDE,
    kind: Kind = Kind.NORM,
) -> Operator:
    """An entry of one result, of the first operand's element type, that holds sums."""
    infer = shaped(shape)
    bound = by_type(infer, magnitude)
    return aten(name, kind, arithmetic, dtypes, sample, infer, bound, ranks=ranks)


# Types


def shaped(shapes: Callable[[Call], Shape], dtype: Callable[[Call], DType] | None = None) -> TypeRule:
    """One result of a shape, of the first operand's element type or another."""

    def infer(call: Call) -> tuple[TensorType, ...]:
        return (TensorType(dtype(call) if dtype else call.operand(0).dtype, shapes(call)),)

    return infer


def joined(call: Call) -> Shape:
    """The shape to which the operands broadcast."""
    shape = broadcast(*(value.shape for value in call.present))
    if shape is None:
        raise ValueError("operands do not broadcast")
    return shape


def truth(call: Call) -> DType:
    """The type of results that are true or false."""
    return BOOL


def places(call: Call) -> DType:
    """The type of indices."""
    return I64


def summed(call: Call) -> DType:
    """Sums of integers and of truth are of int64."""
    dtype = call.operand(0).dtype
    return dtype if is_float(dtype) else I64


def floating(call: Call) -> DType:
    """The result type of an operator that computes in floats: an integer gives float32."""
    dtype = promoted(call.present)
    return dtype if is_float(dtype) else F32


def promotion(call: Call) -> DType:
    """The type to which torch promotes the operands."""
    return promoted(call.present)


def promoted(operands: Sequence[Operand]) -> DType:
    """torch's promotion: a tensor without dims only counts where its class of types is a higher one."""
    with_dims = _common([value.dtype for value in operands if value.rank])
    without = _common([value.dtype for value in operands if not value.rank])
    if with_dims is None or without is None:
        found = with_dims or without
        assert found is not None
        return found
    return without if _order(without) > _order(with_dims) else with_dims


def _order(dtype: DType) -> int:
    return 2 if is_float(dtype) else 0 if dtype is BOOL else 1


def _common(dtypes: Sequence[DType]) -> DType | None:
    if not dtypes:
        return None
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = _pair(found, dtype)
    return found


def _pair(left: DType, right: DType) -> DType:
    if _order(left) != _order(right):
        return left if _order(left) > _order(right) else right
    if left is right:
        return left
    if {left, right} == {F16, BF16}:
        return F32
    if {left, right} == {U8, I8}:
        return I16
    ranking = (BOOL, U8, I8, I16, I32, I64, F16, BF16, F32, F64)
    return max(left, right, key=ranking.index)


# Ranges


def same_magnitude(call: Call) -> tuple[Range, ...]:
    """The range of results no larger than the first operand."""
    first = call.operand(0)
    return (within_type(first.dtype, symmetric(first.range.magnitude)),)


def whole_type(call: Call) -> tuple[Range, ...]:
    """The range of all that the first operand's type holds."""
    return (extent(call.operand(0).dtype),)


def inside(low: float, high: float) -> RangeRule:
    """A rule for results between two limits."""
    return lambda call: (Range(low, high),)


def by_type(types: TypeRule, magnitude: Callable[[Call], float]) -> RangeRule:
    """The same magnitude for each result, as far as its type holds it."""

    def bound(call: Call) -> tuple[Range, ...]:
        try:
            most = magnitude(call)
        except OverflowError:
            most = math.inf
        return tuple(within_type(found.dtype, symmetric(most)) for found in types(call))

    return bound


def with_places(types: TypeRule) -> RangeRule:
    """Elements of the first operand, and where they were."""

    def bound(call: Call) -> tuple[Range, ...]:
        own = same_magnitude(call)[0]
        return tuple(Range(0, _LARGEST) if at else own for at, _ in enumerate(types(call)))

    return bound


_LARGEST = 5000
"""More than any place in a tensor."""


def magnitudes(call: Call) -> list[float]:
    """The greatest magnitude of each operand."""
    return [value.range.magnitude for value in call.present]


# Samplers


def sampled_with(draw: Callable[[Scope, Operand], Attributes | None]) -> Sampler:
    """The focus alone, with attributes; `draw` may decline."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        attributes = draw(scope, focus)
        return None if attributes is None else Call((focus,), attributes)

    return sample


def paired(within: Callable[[DType], Range] | None = None) -> Sampler:
    """The focus and what broadcasts with it, mostly in this order."""

    def sample(scope: Scope, focus: Operand) -> Call:
        other = scope.partner(focus, within(focus.dtype) if within else None)
        return Call((focus, other) if within or scope.draws.chance(0.7) else (other, focus))

    return sample


def number(scope: Scope, dtype: DType, floats: Sequence[float], whole: Sequence[int]) -> float | int:
    """An attribute that is a number of the kind of the type: another kind would promote it."""
    return scope.draws.pick(floats) if is_float(dtype) else scope.draws.pick(whole)


def axis_of(call: Call, name: str = "dim", default: int = -1) -> int:
    """An axis that an attribute names, counted from the front; 0 of a tensor without dims."""
    return call.integer(name, default) % max(call.operand(0).rank, 1)


def replaced(shape: Shape, axis: int, *dims: int) -> Shape:
    """The shape with other dims in place of one."""
    return (*shape[:axis], *dims, *shape[axis + 1 :])


def same_shape(call: Call) -> Shape:
    """The shape of the first operand."""
    return call.operand(0).shape


def second_shape(call: Call) -> Shape:
    """The shape of the second operand."""
    return call.operand(1).shape


SAME, TRUTH, FLOAT = shaped(same_shape), shaped(same_shape, truth), shaped(same_shape, floating)
"""The type rules of one result of the first operand's shape: of its type, of truth, of floats."""


def moved_elements(call: Call) -> tuple[Range, ...]:
    """The result's shape: that of the operands, or of the values filled in."""
    filled = [
        abs(value)
        for name, value in call.attributes.items()
        if name == "value" and isinstance(value, (int, float))
    ]
    most = max([*magnitudes(call)[:1], *magnitudes(call)[2:], *filled])
    return by_type(lambda call: (call.operand(0).type,), lambda call: most)(call)
