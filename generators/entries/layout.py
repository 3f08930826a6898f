"""The ways back through what moves or repeats elements."""

from __future__ import annotations

from generators.entries.shared import from_either_end, is_filled, part_of, recogniser, with_supplied
from generators.language.operator import Inverse, Operator
from generators.language.program import MAX_RANK, Call
from generators.language.scope import Scope
from generators.language.types import Shape, TensorType


def refactored(scope: Scope, shape: Shape) -> Shape:
    """Another shape of as many elements: neighbours joined, a dim split, ones put in or taken out."""
    draws = scope.draws
    dims = list(shape)
    for _ in range(draws.between(1, 3)):
        form = draws.below(4)
        if form == 0 and len(dims) > 1:
            at = draws.below(len(dims) - 1)
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        elif form == 1 and dims and len(dims) < MAX_RANK:
            at = draws.below(len(dims))
            factors = [n for n in range(2, dims[at]) if dims[at] % n == 0] or [1]
            factor = draws.pick(factors)
            dims[at : at + 1] = [factor, dims[at] // factor]
        elif form == 2 and len(dims) < MAX_RANK:
            dims.insert(draws.between(0, len(dims)), 1)
        elif form == 3 and 1 in dims:
            dims.remove(1)
    return tuple(dims)


def _solve_transpose(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    perm = scope.draws.sample(range(len(shape)), len(shape))
    source = dict(zip(perm, shape, strict=True))
    call = with_supplied(scope, wanted, tuple(source[axis] for axis in range(len(shape))))
    return call._replace(attributes={"perm": tuple(perm)})


def _recognise_reshape(operator: Operator, wanted: TensorType, opset: int) -> bool:
    return wanted.dtype in operator.dtypes_at(opset) and (opset >= 14 or is_filled(wanted.shape))


def _solve_reshape(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    call = with_supplied(scope, wanted, refactored(scope, shape), scope.fix_ints(shape))
    return call._replace(attributes={} if is_filled(shape) else {"allowzero": 1})


def _solve_flatten(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    before, after = ((dim,) if scope.draws.chance(0.5) else (1, dim) for dim in wanted.shape)
    axis = len(before) if scope.draws.chance(0.6) else -len(after)
    return with_supplied(scope, wanted, (*before, *after))._replace(attributes={"axis": axis})


def _solve_squeeze(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    added = scope.draws.between(1, min(2, MAX_RANK - len(wanted.shape)))
    rank = len(wanted.shape) + added
    axes = tuple(sorted(scope.draws.sample(range(rank), added)))
    dims = list(wanted.shape)
    for axis in axes:
        dims.insert(axis, 1)
    return with_supplied(scope, wanted, tuple(dims), scope.fix_ints(from_either_end(scope, axes, rank)))


def _solve_unsqueeze(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    ones = [axis for axis, dim in enumerate(shape) if dim == 1]
    axes = tuple(scope.draws.sample(ones, scope.draws.between(1, min(2, len(ones)))))
    rest = tuple(dim for axis, dim in enumerate(shape) if axis not in axes)
    return with_supplied(scope, wanted, rest, scope.fix_ints(from_either_end(scope, axes, len(shape))))


def _solve_expand(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return with_supplied(scope, wanted, part_of(scope, wanted.shape), scope.fix_ints(wanted.shape))


def _solve_tile(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    most = 3 if not scope.profile.binned else 16
    repeats = [scope.draws.pick([n for n in range(1, most + 1) if dim % n == 0]) for dim in wanted.shape]
    source = tuple(dim // times for dim, times in zip(wanted.shape, repeats, strict=True))
    return with_supplied(scope, wanted, source, scope.fix_ints(repeats))


def _solve_depth(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    batch, channels, height, width = wanted.shape
    call = with_supplied(scope, wanted, (batch, channels * 4, height // 2, width // 2))
    return call._replace(attributes={"blocksize": 2, **scope.draws.pick(({}, {"mode": "CRD"}))})


def _solve_space(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    batch, channels, height, width = wanted.shape
    call = with_supplied(scope, wanted, (batch, channels // 4, height * 2, width * 2))
    return call._replace(attributes={"blocksize": 2})


TRANSPOSE = Inverse(recogniser(lambda shape: len(shape) >= 1), _solve_transpose)
RESHAPE = Inverse(_recognise_reshape, _solve_reshape)
FLATTEN = Inverse(recogniser(lambda shape: len(shape) == 2), _solve_flatten)
SQUEEZE = Inverse(recogniser(lambda shape: len(shape) < MAX_RANK), _solve_squeeze)
UNSQUEEZE = Inverse(recogniser(lambda shape: 1 in shape), _solve_unsqueeze)
EXPAND = Inverse(recogniser(lambda shape: True), _solve_expand)
TILE = Inverse(recogniser(lambda shape: len(shape) >= 1), _solve_tile)
DEPTH = Inverse(
    recogniser(lambda shape: len(shape) == 4 and is_filled(shape) and not (shape[2] % 2 or shape[3] % 2)),
    _solve_depth,
)
SPACE = Inverse(
    recogniser(lambda shape: len(shape) == 4 and is_filled(shape) and not shape[1] % 4), _solve_space
)
