"""What entries for operators of torch itself share: element types, types of results, ranges."""

from collections.abc import Callable, Sequence

from oracles.relation.arithmetic import Arithmetic, symmetric, within_type
from oracles.relation.operator import Operator, RangeRule, Sampler, TypeRule, same_type, sample_alone
from oracles.relation.program import RANKS, Call, DTypeFamily, Kind, Operand, Scope
from oracles.relation.rules import by_type, magnitudes, same_shape, shaped
from oracles.relation.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType, Range, is_float
from oracles.worker.onnx import DOMAIN

FLOATING = (F32, F64, F16, BF16)
WIDE = (F32, F64)
INTEGRAL = (I64, I32, I16, I8, U8)
NUMBERS = FLOATING + INTEGRAL
EVERY = (*NUMBERS, BOOL)
"""What torch computes in; its wider unsigned integers have few kernels."""


def aten(
    name: str,
    kind: Kind,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    sample: Sampler = sample_alone,
    infer: TypeRule = same_type,
    most: Callable[[Call], float] | None = None,
    ranks: range = RANKS,
    *,
    bound: RangeRule | None = None,
    domain: Range | None = None,
    filled: bool = False,
) -> Operator:
    """An entry whose results are at most so large: as large as the first operand where nothing is said."""
    bound = bound or (by_type(infer, most) if most else same_magnitude)
    name = f"{DOMAIN}.{name}"
    return Operator(
        name,
        kind,
        arithmetic,
        dtypes,
        sample,
        infer,
        bound,
        ranks,
        domain=domain,
        filled=filled,
        realm=DTypeFamily.ATEN,
    )


# Types


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


def with_places(types: TypeRule) -> RangeRule:
    """Elements of the first operand, and where they were."""

    def bound(call: Call) -> tuple[Range, ...]:
        own = same_magnitude(call)[0]
        return tuple(Range(0, _LARGEST) if at else own for at, _ in enumerate(types(call)))

    return bound


_LARGEST = 5000
"""More than any place in a tensor."""


def times(factor: float) -> Callable[[Call], float]:
    """So many times the largest magnitude of the first operand."""
    return lambda call: factor * magnitudes(call)[0]


def largest(call: Call) -> float:
    """The largest magnitude of all operands."""
    return max(magnitudes(call))


# Samplers


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


TO_FLOAT = shaped(same_shape, floating)
"""The type rule of a float for each element of the first operand."""


def moved_elements(call: Call) -> tuple[Range, ...]:
    """The result's shape: that of the operands, or of the values filled in."""
    filled = [
        abs(value)
        for name, value in call.attributes.items()
        if name == "value" and isinstance(value, (int, float))
    ]
    most = max([*magnitudes(call)[:1], *magnitudes(call)[2:], *filled])
    return by_type(same_type, lambda call: most)(call)
