"""Operators that look at regions and boxes of an image, bend it, lay grids over it or put it together."""

import math

import numpy as np

from oracles.relation.arithmetic import SUMS, SUMS_INSIDE, WHOLE, Arithmetic, Rounding, of_conv, symmetric
from oracles.relation.open_checks import takes_maximum
from oracles.relation.operator import Operator
from oracles.relation.program import (
    ALONG,
    CUBE,
    IMAGE,
    MAX_ELEMENTS,
    Attribute,
    Call,
    DoesNotFit,
    Kind,
    Operand,
    Scope,
    fits,
    volume,
)
from oracles.relation.rules import another_dim, inverted, is_filled_image, with_more_dims, with_zero
from oracles.relation.types import (
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    NUMPY,
    U8,
    Range,
    Shape,
    TensorType,
    is_filled,
)


def _corners(scope: Scope, focus: Operand, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Regions inside the image: left, top, right, bottom."""
    _, _, height, width = focus.shape
    rows = []
    for _ in range(count):
        left, top = scope.draws.between(0, width - 1), scope.draws.between(0, height - 1)
        rows.append([left, top, scope.draws.between(left, width), scope.draws.between(top, height)])
    return np.array(rows, dtype=np.float64).reshape(count, 4)


def _sample_roi_align(scope: Scope, focus: Operand) -> Call:
    count, height, width = (scope.draws.between(1, 3) for _ in range(3))
    return _roi_align(scope, focus, count, height, width)


def _roi_align(scope: Scope, focus: Operand, count: int, height: int, width: int) -> Call:
    draws = scope.draws
    regions = scope.fix(_corners(scope, focus, count).astype(NUMPY[focus.dtype]), focus.dtype)
    batches = scope.fix_ints(draws.below(focus.shape[0]) for _ in range(count))
    attributes: dict[str, Attribute] = {
        "output_height": height,
        "output_width": width,
        "sampling_ratio": draws.between(1, 2),
        "mode": draws.pick(("avg", "max")),
    }
    if draws.chance(0.3):
        attributes["spatial_scale"] = 0.5
    if scope.opset >= 16 and draws.chance(0.5):
        attributes["coordinate_transformation_mode"] = draws.pick(("half_pixel", "output_half_pixel"))
    return Call((focus, regions, batches), attributes)


def _infer_roi_align(call: Call) -> tuple[TensorType, ...]:
    image, regions = call.operand(0), call.operand(1)
    size = call.integer("output_height", 1), call.integer("output_width", 1)
    return (TensorType(image.dtype, (regions.shape[0], image.shape[1], *size)),)


def _solve_roi_align(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    count, channels, height, width = wanted.shape
    return _roi_align(scope, _image_of(scope, wanted, channels), count, height, width)


def _image_of(scope: Scope, wanted: TensorType, channels: int) -> Operand:
    return scope.supply(wanted.dtype, (1, *with_more_dims(scope, (channels,), 2)))


def _is_region(shape: Shape) -> bool:
    return len(shape) == 4 and shape[0] <= 64


def _sample_roi_pool(scope: Scope, focus: Operand) -> Call:
    count, size = scope.draws.between(1, 3), (scope.draws.between(1, 2), scope.draws.between(1, 2))
    return _roi_pool(scope, focus, count, size)


def _roi_pool(scope: Scope, focus: Operand, count: int, size: tuple[int, int]) -> Call:
    batches = [[scope.draws.below(focus.shape[0])] for _ in range(count)]
    regions = np.concatenate((np.array(batches), _corners(scope, focus, count)), axis=1)
    regions = regions.astype(NUMPY[focus.dtype])
    return Call((focus, scope.fix(regions, focus.dtype)), {"pooled_shape": size})


def _infer_roi_pool(call: Call) -> tuple[TensorType, ...]:
    image, regions = call.operand(0), call.operand(1)
    shape = (regions.shape[0], image.shape[1], *call.tuple_of("pooled_shape", (1, 1)))
    return (TensorType(image.dtype, shape),)


def _solve_roi_pool(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    count, channels, height, width = wanted.shape
    return _roi_pool(scope, _image_of(scope, wanted, channels), count, (height, width))


def _sample_columns(scope: Scope, focus: Operand) -> Call | None:
    """The focus holds blocks of 1 or 2 by 1 or 2 in its channels, one column a place."""
    draws = scope.draws
    _, channels, columns = focus.shape
    block = draws.pick([size for size in ((1, 1), (1, 2), (2, 1), (2, 2)) if channels % math.prod(size) == 0])
    if 0 in focus.shape:
        return None
    image = (block[0], columns + block[1] - 1)
    return Call((focus, scope.fix_ints(image), scope.fix_ints(block)))


def _infer_columns(call: Call) -> tuple[TensorType, ...]:
    batch, channels, _ = call.operand(0).shape
    block = math.prod(call.ints(2) or (1,))
    return (TensorType(call.operand(0).dtype, (batch, channels // block, *(call.ints(1) or ()))),)


def _bound_columns(call: Call) -> tuple[Range, ...]:
    return (symmetric(call.operand(0).range.magnitude * math.prod(call.ints(2) or (1,))),)


def _solve_columns(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    batch, channels, height, width = wanted.shape
    columns = scope.supply(wanted.dtype, (batch, channels * height, width))
    return Call((columns, scope.fix_ints((height, width)), scope.fix_ints((height, 1))))


def _sample_crop(scope: Scope, focus: Operand) -> Call:
    """A shape around the middle, larger or smaller along each axis."""
    wanted = [max(1, dim + scope.draws.between(-2, 2)) for dim in focus.shape]
    return Call((focus, scope.fix_ints(wanted)))


def _infer_crop(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(call.operand(0).dtype, call.ints(1) or ()),)


def _solve_crop(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = tuple(max(1, dim + scope.draws.between(-2, 1)) for dim in wanted.shape)
    source = shape if volume(shape) <= MAX_ELEMENTS else wanted.shape
    return Call((scope.supply(wanted.dtype, source), scope.fix_ints(wanted.shape)))


def _sample_unpool(scope: Scope, focus: Operand) -> Call | None:
    """Each value goes back to the first place of its own window."""
    sizes = [scope.draws.between(1, 2) for _ in focus.shape[2:]]
    return None if 0 in focus.shape else _unpool(scope, focus, tuple(sizes))


def _unpool(scope: Scope, focus: Operand, kernel: Shape) -> Call:
    shape = (*focus.shape[:2], *(dim * size for dim, size in zip(focus.shape[2:], kernel, strict=True)))
    if volume(shape) > MAX_ELEMENTS:
        raise DoesNotFit(str(shape))
    places = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    first = places[(slice(None), slice(None), *(slice(None, None, size) for size in kernel))]
    return Call(
        (focus, scope.fix(np.ascontiguousarray(first), I64)), {"kernel_shape": kernel, "strides": kernel}
    )


def _infer_unpool(call: Call) -> tuple[TensorType, ...]:
    focus, kernel = call.operand(0), call.tuple_of("kernel_shape", ())
    spatial = (dim * size for dim, size in zip(focus.shape[2:], kernel, strict=True))
    return (TensorType(focus.dtype, (*focus.shape[:2], *spatial)),)


def _solve_unpool(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    spatial = wanted.shape[2:]
    kernel = tuple(scope.draws.pick([size for size in (1, 2) if dim % size == 0]) for dim in spatial)
    dims = (dim // size for dim, size in zip(spatial, kernel, strict=True))
    return _unpool(scope, scope.supply(wanted.dtype, (*wanted.shape[:2], *dims)), kernel)


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


def _sample_deform(scope: Scope, focus: Operand) -> Call:
    draws = scope.draws
    _, channels, *spatial = focus.shape
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


def _is_bent(shape: Shape) -> bool:
    """Offsets for a window of one place fit too."""
    return len(shape) == 4 and fits((shape[0], 2, *shape[2:]))


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


def _is_boxes(shape: Shape) -> bool:
    return len(shape) == 2 and shape[1] == 3 and shape[0] <= 256


_ALIGNED, _POOLED = inverted(_is_region, _solve_roi_align), inverted(_is_region, _solve_roi_pool)
_CROPPED, _GRID = inverted(ALONG, _solve_crop), inverted(_is_grid, _solve_affine)
_COLUMNS, _UNPOOLED = inverted(is_filled_image, _solve_columns), inverted(is_filled_image, _solve_unpool)
_ALIGNS = Arithmetic(Rounding.INSIDE, opens={"a maximum of corners or of samples": takes_maximum})
_CROPS, _BENDS = Arithmetic(Rounding.NOTHING, dims_at=(1,)), Arithmetic(Rounding.INSIDE, terms=of_conv)
_MOVED = (F32, F64, I32, I64, I8, U8, BOOL)


OPERATORS = (
    Operator("RoiAlign", Kind.RESAMPLE, _ALIGNS, (F32, F64), ranks=IMAGE, filled=True, until=21).by(
        _sample_roi_align, _infer_roi_align, with_zero, _ALIGNED
    ),
    Operator("MaxRoiPool", Kind.RESAMPLE, WHOLE, (F32, F16), ranks=IMAGE, filled=True, until=21).by(
        _sample_roi_pool, _infer_roi_pool, with_zero, _POOLED
    ),
    Operator("Col2Im", Kind.RESAMPLE, SUMS, (F32, F16), ranks=CUBE, since=18).by(
        _sample_columns, _infer_columns, _bound_columns, _COLUMNS
    ),
    Operator("CenterCropPad", Kind.PAD, _CROPS, _MOVED, ranks=ALONG, filled=True, since=18).by(
        _sample_crop, _infer_crop, with_zero, _CROPPED
    ),
    Operator(
        "MaxUnpool", Kind.POOL, WHOLE, (F32, F16), _sample_unpool, _infer_unpool, with_zero, IMAGE, _UNPOOLED
    ),
    Operator("AffineGrid", Kind.RESAMPLE, SUMS_INSIDE, (F32, F64), ranks=CUBE, since=20).by(
        _sample_affine, _infer_affine, _bound_affine, _GRID
    ),
    Operator("DeformConv", Kind.LINEAR, _BENDS, (F32, F64), ranks=IMAGE, filled=True, since=19).by(
        _sample_deform, _infer_deform, _bound_deform, inverted(_is_bent, _solve_deform)
    ),
    Operator("NonMaxSuppression", Kind.PART, WHOLE, (F32,), ranks=CUBE).by(
        _sample_boxes, _infer_boxes, _bound_boxes, inverted(_is_boxes, _solve_boxes, I64)
    ),
)
