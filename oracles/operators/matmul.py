"""Matrix products and determinants."""

import math

from oracles.relation.arithmetic import (
    SUMS,
    SUMS_INSIDE,
    Arithmetic,
    Rounding,
    of_gemm,
    of_matmul,
    symmetric,
    within_type,
)
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import ALONG, FLAT, MATRIX, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import another_dim, inverted, recogniser, shaped
from oracles.relation.types import (
    F16,
    F32,
    F64,
    FLOATS,
    I32,
    I64,
    U32,
    U64,
    Range,
    Shape,
    TensorType,
    broadcast,
    is_filled,
)


def matmul_shape(left: Shape, right: Shape) -> Shape:
    """numpy's rule: a vector is a row on the left and a column on the right, and loses that dim again."""
    rows = left[:-1] if len(left) > 1 else ()
    batch = broadcast(left[:-2], right[:-2])
    if batch is None:
        raise ValueError("batches do not broadcast")
    return batch + rows[-1:] + (right[-1:] if len(right) > 1 else ())


def sample_matmul(scope: Scope, focus: Operand) -> Call | None:
    """The focus on either side; the other is a matrix, a vector or a batch that broadcasts."""
    is_left = scope.draws.chance(0.7)
    inner = focus.shape[-1] if is_left or focus.rank == 1 else focus.shape[-2]
    shape = _other_shape(scope, focus, inner, is_left)
    if 0 in shape:
        return None
    other = scope.supply(focus.dtype, shape)
    return Call((focus, other) if is_left else (other, focus))


def _other_shape(scope: Scope, focus: Operand, inner: int, is_left: bool) -> Shape:
    draws = scope.draws
    if draws.chance(0.15):
        return (inner,)
    matrix = (inner, scope.dim()) if is_left else (scope.dim(), inner)
    if draws.chance(0.6):
        return matrix
    batch = focus.shape[:-2]
    return tuple(dim if draws.chance(0.7) else 1 for dim in batch[draws.between(0, len(batch)) :]) + matrix


def multiplied(call: Call) -> Shape:
    """The shape of the product of two operands."""
    return matmul_shape(call.operand(0).shape, call.operand(1).shape)


def _bound_matmul(call: Call) -> tuple[Range, ...]:
    left, right = call.operand(0), call.operand(1)
    total = left.range.magnitude * right.range.magnitude * max(left.shape[-1], 1)
    return (within_type(left.dtype, symmetric(total)),)


def sample_gemm(scope: Scope, focus: Operand) -> Call:
    """The focus as either factor, turned or not, and perhaps an addend."""
    draws = scope.draws
    attributes: dict[str, Attribute] = {}
    for name in ("transA", "transB"):
        if draws.chance(0.5):
            attributes[name] = draws.below(2)
    for name in ("alpha", "beta"):
        if draws.chance(0.3):
            attributes[name] = draws.pick((0.5, 2.0, -1.0, 0.0, 1.0))
    is_left, inner, outer = draws.chance(0.7), 0, scope.dim()
    if is_left:
        inner = focus.shape[0 if attributes.get("transA") else 1]
        other = (outer, inner) if attributes.get("transB") else (inner, outer)
    else:
        inner = focus.shape[1 if attributes.get("transB") else 0]
        other = (inner, outer) if attributes.get("transA") else (outer, inner)
    weight = scope.supply(focus.dtype, other)
    call = Call((focus, weight) if is_left else (weight, focus), attributes)
    return call._replace(operands=(*call.operands, *_addend(scope, call)))


def _addend(scope: Scope, call: Call) -> tuple[Operand, ...]:
    """The optional third operand broadcasts to the product in one direction."""
    if scope.draws.chance(0.25):
        return ()
    rows, columns = gemm_shape(call)
    shape = scope.draws.pick(((columns,), (columns,), (rows, columns), (1, columns), (rows, 1), (1,), ()))
    return (scope.supply(call.operand(0).dtype, shape),)


def gemm_shape(call: Call) -> Shape:
    """The shape of the product of two matrices, turned or not."""
    left, right = call.operand(0).shape, call.operand(1).shape
    return left[1 if call.attributes.get("transA") else 0], right[0 if call.attributes.get("transB") else 1]


def _bound_gemm(call: Call) -> tuple[Range, ...]:
    left, right, addend = call.operand(0), call.operand(1), call.optional(2)
    product = left.range.magnitude * right.range.magnitude * max(*left.shape, 1)
    # Neither factor is above 2.
    return (symmetric(2 * product + 2 * (addend.range.magnitude if addend else 0)),)


_EQUATIONS: dict[int, tuple[str, ...]] = {
    2: ("ij->ji", "ij->i", "ij->", "ij,jk->ik", "ij,kj->ik", "ij,ij->ij", "ij,j->i", "ij,ij->"),
    3: ("bij->bji", "bij->b", "bij,bjk->bik", "bij,bkj->bik", "bij,jk->bik", "...ij->...ji", "bii->bi"),
    4: ("bhij,bhjk->bhik", "bhij,bhkj->bhik", "bhij->bihj", "bhwc,hkc->bhwk", "abcd->dcba"),
}


def _sample_einsum(scope: Scope, focus: Operand) -> Call | None:
    equation = scope.draws.pick(_EQUATIONS[focus.rank])
    first, *others = equation.split("->")[0].split(",")
    letters = first.replace("...", "z")
    sizes = dict(zip(letters, focus.shape, strict=True))
    if any(sizes[letter] != dim for letter, dim in zip(letters, focus.shape, strict=True)):
        return None
    operands = [focus]
    for term in others:
        for letter in term:
            sizes.setdefault(letter, scope.dim())
        operands.append(scope.supply(focus.dtype, tuple(sizes[letter] for letter in term)))
    return Call(tuple(operands), {"equation": equation}) if all(sizes.values()) else None


def _sizes(call: Call) -> tuple[dict[str, int], str]:
    equation = call.attributes["equation"]
    assert isinstance(equation, str)
    terms, _, result = equation.replace("...", "z").partition("->")
    sizes: dict[str, int] = {}
    for term, operand in zip(terms.split(","), call.present, strict=True):
        sizes |= dict(zip(term, operand.shape, strict=True))
    return sizes, result


def _infer_einsum(call: Call) -> tuple[TensorType, ...]:
    sizes, result = _sizes(call)
    return (TensorType(call.operand(0).dtype, tuple(sizes[letter] for letter in result)),)


def _bound_einsum(call: Call) -> tuple[Range, ...]:
    sizes, result = _sizes(call)
    total = 1.0
    for letter, size in sizes.items():
        total *= 1 if letter in result else size
    for operand in call.present:
        total *= operand.range.magnitude
    return (within_type(call.operand(0).dtype, symmetric(total)),)


def _factors(scope: Scope, shape: Shape) -> tuple[Shape, Shape]:
    """Return two shapes whose matrix product has this one."""
    draws = scope.draws
    inner = another_dim(scope, shape)
    if not shape:
        return (inner,), (inner,)
    if len(shape) == 1:
        return draws.pick((((inner,), (inner, *shape)), ((*shape, inner), (inner,))))
    *batch, rows, columns = shape
    part = tuple(dim if draws.chance(0.6) else 1 for dim in batch)[draws.between(0, len(batch)) :]
    whole, less = (*batch, rows, inner), (*part, inner, columns)
    if draws.chance(0.7):
        return whole, less
    return (*part, rows, inner), (*batch, inner, columns)


def _solve_matmul(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    left, right = _factors(scope, wanted.shape)
    return Call((scope.supply(wanted.dtype, left), scope.supply(wanted.dtype, right)))


def _solve_gemm(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    draws, (rows, columns) = scope.draws, wanted.shape
    inner = another_dim(scope, wanted.shape)
    attributes: dict[str, Attribute] = {name: 1 for name in ("transA", "transB") if draws.chance(0.3)}
    left = (inner, rows) if "transA" in attributes else (rows, inner)
    right = (columns, inner) if "transB" in attributes else (inner, columns)
    operands = [scope.supply(wanted.dtype, left), scope.supply(wanted.dtype, right)]
    if draws.chance(0.7):
        addend = draws.pick(((columns,), (rows, columns), (1, columns), (rows, 1), (1,), ()))
        operands.append(scope.supply(wanted.dtype, addend))
    return Call(tuple(operands), attributes)


def _has_twice(term: str) -> bool:
    letters = term.replace("...", "z")
    return len(set(letters)) < len(letters)


def _einsum(equations: tuple[str, ...]) -> Inverse:
    """Any equation whose result has the wanted rank, but none that takes a diagonal.

    A diagonal's source may be too large.
    """

    plain = [text for text in equations if not any(map(_has_twice, text.partition("->")[0].split(",")))]

    def results(rank: int) -> list[str]:
        return [text for text in plain if len(text.partition("->")[2].replace("...", "z")) == rank]

    def solve(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
        equation = scope.draws.pick(results(len(wanted.shape)))
        terms, _, result = equation.replace("...", "z").partition("->")
        sizes = dict(zip(result, wanted.shape, strict=True))
        operands = []
        for term in terms.split(","):
            for letter in term:
                sizes.setdefault(letter, another_dim(scope, tuple(sizes.values())))
            operands.append(scope.supply(wanted.dtype, tuple(sizes[letter] for letter in term)))
        return Call(tuple(operands), {"equation": equation})

    return Inverse(recogniser(lambda shape: bool(results(len(shape))) and is_filled(shape)), solve)


def _sample_det(scope: Scope, focus: Operand) -> Call | None:
    size = focus.shape[-1]
    return Call((focus,)) if size == focus.shape[-2] and 1 <= size <= 3 else None


def _bound_det(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    size = focus.shape[-1]
    return (symmetric(math.factorial(size) * max(focus.range.magnitude, 1.0) ** size),)


def _solve_det(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    size = 2 if another_dim(scope, wanted.shape, 1) > 3 else 1
    return Call((scope.supply(wanted.dtype, (*wanted.shape, size, size)),))


MATMUL, _GEMM = inverted(is_filled, _solve_matmul), inverted(MATRIX, _solve_gemm)
_EINSUM = _einsum(sum(_EQUATIONS.values(), ()))
_DTYPES = (*FLOATS, I32, I64, U32, U64)
_PRODUCTS = Arithmetic(Rounding.TERMS, terms=of_matmul, keeps_whole=True)
_GEMMS = Arithmetic(Rounding.TERMS, terms=of_gemm, keeps_whole=True)
_MULTIPLIED, _TURNED = shaped(multiplied), shaped(gemm_shape)

OPERATORS = (
    Operator("MatMul", Kind.LINEAR, _PRODUCTS, _DTYPES, ranks=ALONG, filled=True).by(
        sample_matmul, _MULTIPLIED, _bound_matmul, MATMUL
    ),
    Operator("Gemm", Kind.LINEAR, _GEMMS, (F32, F64, F16), sample_gemm, _TURNED, _bound_gemm, MATRIX, _GEMM),
    Operator("Einsum", Kind.LINEAR, SUMS, (F32, F64, I32, I64), ranks=range(2, 5)).by(
        _sample_einsum, _infer_einsum, _bound_einsum, _EINSUM
    ),
    Operator("Det", Kind.REDUCE, SUMS_INSIDE, (F32, F16), ranks=FLAT, filled=True).by(
        _sample_det,
        shaped(lambda call: call.operand(0).shape[:-2]),
        _bound_det,
        inverted(range(4), _solve_det),
    ),
)
