"""The ways back through products of matrices."""

from __future__ import annotations

from generators.entries.shared import another_dim, is_filled, recogniser
from generators.language.operator import Inverse, Operator
from generators.language.program import Attribute, Call
from generators.language.scope import Scope
from generators.language.types import Shape, TensorType


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


def einsum(equations: tuple[str, ...]) -> Inverse:
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


MATMUL = Inverse(recogniser(is_filled), _solve_matmul)
GEMM = Inverse(recogniser(lambda shape: len(shape) == 2), _solve_gemm)
