"""Operators of `com.microsoft` whose results follow from known values: crops, paths, inverses, sets."""

import numpy as np

from corpus.values import Tensor
from oracles.relation.arithmetic import (
    SUMS_INSIDE,
    WHOLE,
    Arithmetic,
    Rounding,
    hull,
    of_window,
    rounded,
    symmetric,
)
from oracles.relation.operator import Operator
from oracles.relation.program import FLAT, IMAGE, VECTOR, Attribute, Call, Kind, Operand, Scope, fits
from oracles.relation.rules import another_dim, inverted
from oracles.relation.types import F32, F64, I32, I64, NUMPY, Range, Shape, TensorType, is_filled


def _sample_crops(scope: Scope, focus: Operand) -> Call:
    size = (scope.draws.between(1, 4), scope.draws.between(1, 4))
    return _crops(scope, focus, scope.draws.between(1, 4), size)


def _crops(scope: Scope, image: Operand, count: int, size: tuple[int, ...]) -> Call:
    """Boxes by their corners, each of one image; they may reach over its edge, where a value stands."""
    draws = scope.draws
    boxes = scope.supply(F32, (count, 4), draws.pick((Range(0, 1), Range(-0.5, 1.5))))
    images = scope.supply(I32, (count,), Range(0, image.shape[0] - 1))
    attributes: dict[str, Attribute] = {"mode": draws.pick(("bilinear", "nearest"))}
    if draws.chance(0.4):
        attributes["extrapolation_value"] = 2.0
    return Call((image, boxes, images, scope.fix(np.array(size, np.int32), I32)), attributes)


def _infer_crops(call: Call) -> tuple[TensorType, ...]:
    image, boxes, size = call.operand(0), call.operand(1), call.ints(3) or ()
    return (TensorType(F32, (boxes.shape[0], image.shape[1], *size)),)


def _bound_crops(call: Call) -> tuple[Range, ...]:
    return (hull((call.operand(0).range, Range(0, 2))),)


def _solve_crops(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    count, channels, *size = wanted.shape
    dims: Shape = (channels, another_dim(scope, (channels,)))
    dims = (scope.draws.between(1, 2), *dims)
    image = scope.supply(F32, (*dims, 1) if fits((*dims, 1)) else (1, channels, 1, 1))
    return _crops(scope, image, count, tuple(size))


def _sample_path(scope: Scope, focus: Operand) -> Call | None:
    """The way through one row or column; or through a known square, mostly along its diagonal."""
    *_, rows, columns = focus.shape
    is_line = is_filled(focus.shape) and 1 in (rows, columns) and focus.shape[:-2] in ((), (1,))
    return Call((focus,)) if is_line else None


def _infer_path(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(I32, (2, max(call.operand(0).shape))),)


def _solve_path(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """A square of which the diagonal costs nothing."""
    size, draws = wanted.shape[1], scope.draws
    if size > 32 or draws.chance(0.3):
        return Call((scope.supply(F32, draws.pick(((1, size), (size, 1), (1, size, 1)))),))
    costs = 1 + (draws.words(size * size) % 8).reshape(size, size).astype(np.float32)
    return Call((scope.constant(costs * (1 - np.eye(size, dtype=np.float32)), F32),))


def _sample_inverse(scope: Scope, focus: Operand) -> Call | None:
    """Known matrices that are far from singular, or single numbers that are far from 0."""
    if not _is_square(focus.shape):
        return None
    if focus.shape[-1] == 1 and focus.range.magnitude_floor >= 0.1:
        return Call((focus,))
    known = focus.content
    return Call((focus,)) if known is not None and focus.is_constant and _least(known) > 0.1 else None


def _is_square(shape: Shape) -> bool:
    return len(shape) >= 2 and is_filled(shape) and shape[-1] == shape[-2]


def _least(matrices: Tensor) -> float:
    """The least that any of the matrices stretches a vector."""
    return float(np.linalg.svd(matrices.astype(np.float64), compute_uv=False).min())


def _bound_inverse(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    floor = focus.range.magnitude_floor if focus.content is None else _least(focus.content)
    return (symmetric(rounded(1.1 / max(floor, 1e-30))),)


def _solve_inverse(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """Small numbers beside a large diagonal."""
    count = wanted.shape[-1]
    noise = (scope.draws.words(int(np.prod(wanted.shape))) % 9 / 8 - 0.5).reshape(wanted.shape)
    matrices = noise + (count + 1) * np.eye(count)
    return Call((scope.constant(matrices.astype(NUMPY[wanted.dtype]), wanted.dtype),))


def _sample_unique(scope: Scope, focus: Operand) -> Call | None:
    return Call((focus,), {}, 3) if focus.content is not None and focus.is_constant else None


def _infer_unique(call: Call) -> tuple[TensorType, ...]:
    known, focus = call.operand(0).content, call.operand(0)
    assert known is not None
    count = len(set(known.tolist()))
    return TensorType(F32, (count,)), TensorType(I64, focus.shape), TensorType(I64, (count,))


def _bound_unique(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    size = float(focus.shape[0])
    return focus.range, Range(0, size), Range(0, size)


def _solve_unique(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    (count,) = wanted.shape
    places = [*range(count), *(scope.draws.below(count) for _ in range(min(count, 5)))]
    return Call((scope.constant(np.array(places, np.float32), F32),), {}, 3)


OPERATORS = (
    Operator(
        "com.microsoft.CropAndResize",
        Kind.RESAMPLE,
        Arithmetic(Rounding.INSIDE, terms=of_window),
        (F32,),
        ranks=IMAGE,
        filled=True,
    ).by(_sample_crops, _infer_crops, _bound_crops, inverted(IMAGE, _solve_crops)),
    Operator("com.microsoft.DynamicTimeWarping", Kind.PART, WHOLE, (F32,), ranks=range(2, 4)).by(
        _sample_path,
        _infer_path,
        lambda call: (Range(0, max(call.operand(0).shape)),),
        inverted(lambda shape: shape[:1] == (2,) and len(shape) == 2 and shape[1] > 0, _solve_path, I32),
    ),
    Operator("com.microsoft.Inverse", Kind.LINEAR, SUMS_INSIDE, (F32, F64), ranks=FLAT).by(
        _sample_inverse, bound=_bound_inverse, inverse=inverted(_is_square, _solve_inverse)
    ),
    Operator("com.microsoft.Unique", Kind.PART, WHOLE, (F32,), ranks=VECTOR).by(
        _sample_unique, _infer_unique, _bound_unique, inverted(VECTOR, _solve_unique)
    ),
)
