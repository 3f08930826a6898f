"""Images bent, boxed and laid over with grids."""

import math

import numpy as np

from oracles.relation.arithmetic import SUMS_INSIDE, WHOLE, Arithmetic, Rounding, of_conv, symmetric
from oracles.relation.open_checks import another_dim, fits, is_filled, recogniser
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import Attribute, Call, DoesNotFit, Kind, Operand, Scope
from oracles.relation.types import F32, F64, I64, Range, Shape, TensorType


def _sample_affine(scope: Scope, focus: Operand) -> Call | None:
    """One matrix an image, of two or three dims: the focus, or others of its type where it is none."""
    batch, rows, columns = focus.shape
    if not batch:
        return None
    if (rows, columns) not in ((2, 3), (3, 4)):
        rows = scope.draws.between(2, 3)
        focus = scope.supply(focus.dtype, (batch, rows, rows + 1))
    return _affine(scope, focus, tuple(max(1, scope.dim()) for _ in range(rows)))


def _affine(scope: Scope, theta: Operand, size: Shape) -> Call:
    draws = scope.draws
    sizes = scope.fix_ints((theta.shape[0], draws.between(1, 3), *size))
    if min(size) > 1 and draws.chance(0.5):
        return Call((theta, sizes), {"align_corners": 1})
    return Call((theta, sizes))


def _infer_affine(call: Call) -> tuple[TensorType, ...]:
    theta, sizes = call.operand(0), call.ints(1) or ()
    return (TensorType(theta.dtype, (theta.shape[0], *sizes[2:], theta.shape[1])),)


def _bound_affine(call: Call) -> tuple[Range, ...]:
    theta = call.operand(0)
    return (symmetric(theta.shape[2] * theta.range.magnitude),)


def _is_grid(shape: Shape) -> bool:
    return is_filled(shape) and (len(shape), shape[-1:]) in ((4, (2,)), (5, (3,)))


def _solve_affine(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    batch, *size, rows = wanted.shape
    return _affine(scope, scope.supply(wanted.dtype, (batch, rows, rows + 1)), tuple(size))


def _sample_deform(scope: Scope, focus: Operand) -> Call | None:
    draws = scope.draws
    _, channels, *spatial = focus.shape
    if not is_filled(focus.shape):
        return None
    kernel = tuple(draws.between(1, min(2, dim)) for dim in spatial)
    group = draws.pick([count for count in (1, 2) if channels % count == 0])
    return _deform(scope, focus, kernel, group * draws.between(1, 3), group)


def _deform(scope: Scope, image: Operand, kernel: Shape, made: int, group: int) -> Call:
    """Offsets for each place of the window; a bias and a mask now and then."""
    draws, (batch, channels, *spatial) = scope.draws, image.shape
    size = tuple(dim - extent + 1 for dim, extent in zip(spatial, kernel, strict=True))
    shares = draws.pick([count for count in (1, 2) if channels % count == 0])
    places = shares * math.prod(kernel)
    offsets = (batch, 2 * places, *size)
    if not fits(offsets):
        raise DoesNotFit(str(offsets))
    operands: list[Operand | None] = [
        image,
        scope.supply(image.dtype, (made, channels // group, *kernel)),
        scope.supply(image.dtype, offsets, Range(-2, 2)),
    ]
    if draws.chance(0.5):
        operands.append(scope.supply(image.dtype, (made,)))
    if draws.chance(0.4):
        operands += [None] * (4 - len(operands))
        operands.append(scope.supply(image.dtype, (batch, places, *size), Range(-2, 2)))
    attributes: dict[str, Attribute] = {"kernel_shape": kernel} if draws.chance(0.5) else {}
    attributes |= {"group": group} if group > 1 else {}
    return Call(tuple(operands), {**attributes, "offset_group": shares} if shares > 1 else attributes)


def _infer_deform(call: Call) -> tuple[TensorType, ...]:
    image, weight, offsets = (call.operand(index) for index in range(3))
    return (TensorType(image.dtype, (image.shape[0], weight.shape[0], *offsets.shape[2:])),)


def _bound_deform(call: Call) -> tuple[Range, ...]:
    image, weight, bias = call.operand(0), call.operand(1), call.optional(3)
    total = 2 * math.prod(weight.shape[1:]) * image.range.magnitude * weight.range.magnitude
    return (symmetric(total + (bias.range.magnitude if bias else 0)),)


def _is_image(shape: Shape) -> bool:
    """Offsets for a window of one place fit too."""
    return len(shape) == 4 and is_filled(shape) and fits((shape[0], 2, *shape[2:]))


def _solve_deform(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """A window of one place in each channel."""
    batch, made, *size = wanted.shape
    channels = 2 * another_dim(scope, (batch, 2, *size)) // 2
    channels = channels if channels % 2 else 1
    return _deform(scope, scope.supply(wanted.dtype, (batch, channels, *size)), (1, 1), made, 1)


def _sample_boxes(scope: Scope, focus: Operand) -> Call | None:
    """Scores of boxes that lie apart, so that as many are selected as may be."""
    if not is_filled(focus.shape) or math.prod(focus.shape) > 256:
        return None
    return _select(scope, focus, scope.draws.between(0, focus.shape[2]))


def _select(scope: Scope, scores: Operand, most: int) -> Call:
    batch, _, count = scores.shape
    left = np.arange(count, dtype=np.float32)
    boxes = np.stack([np.zeros_like(left), left, np.ones_like(left), left + 0.5], axis=-1)
    placed = scope.fix(np.broadcast_to(boxes, (batch, count, 4)).copy(), F32)
    limit = scope.fix(np.array([most], dtype=np.int64))
    operands: tuple[Operand, ...] = (placed, scores, limit)
    if scope.draws.chance(0.5):
        operands += (scope.fix(np.array([0.5], dtype=np.float32), F32),)
    return Call(operands, {"center_point_box": 0} if scope.draws.chance(0.3) else {})


def _infer_boxes(call: Call) -> tuple[TensorType, ...]:
    batch, classes, count = call.operand(1).shape
    (most,) = call.ints(2) or (0,)
    return (TensorType(I64, (batch * classes * min(most, count), 3)),)


def _bound_boxes(call: Call) -> tuple[Range, ...]:
    return (Range(0, max(call.operand(1).shape)),)


def _solve_boxes(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    count = wanted.shape[0]
    return _select(scope, scope.supply(F32, (1, 1, max(count, 1))), count)


OPERATORS = (
    Operator(
        "AffineGrid",
        Kind.RESAMPLE,
        SUMS_INSIDE,
        (F32, F64),
        _sample_affine,
        _infer_affine,
        _bound_affine,
        range(3, 4),
        since=20,
        inverse=Inverse(recogniser(_is_grid), _solve_affine),
    ),
    Operator(
        "DeformConv",
        Kind.LINEAR,
        Arithmetic(Rounding.INSIDE, terms=of_conv),
        (F32, F64),
        _sample_deform,
        _infer_deform,
        _bound_deform,
        range(4, 5),
        since=19,
        inverse=Inverse(recogniser(_is_image), _solve_deform),
    ),
    Operator(
        "NonMaxSuppression",
        Kind.PART,
        WHOLE,
        (F32,),
        _sample_boxes,
        _infer_boxes,
        _bound_boxes,
        range(3, 4),
        inverse=Inverse(
            recogniser(lambda shape: len(shape) == 2 and shape[1] == 3 and shape[0] <= 256, I64), _solve_boxes
        ),
    ),
)
