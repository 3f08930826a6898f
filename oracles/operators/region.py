"""Operators that look at regions of an image, lay grids over it or put it together."""

import math

import numpy as np

from oracles.relation.arithmetic import SUMS, WHOLE, Arithmetic, Rounding, hull, symmetric
from oracles.relation.open_checks import another_dim, is_filled, recogniser, takes_maximum, volume
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import ALONG, MAX_ELEMENTS, Attribute, Call, DoesNotFit, Kind, Operand, Scope
from oracles.relation.types import BOOL, F16, F32, F64, I8, I32, I64, NUMPY, U8, Range, Shape, TensorType


def _corners(scope: Scope, focus: Operand, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Regions inside the image: left, top, right, bottom."""
    _, _, height, width = focus.shape
    rows = []
    for _ in range(count):
        left, top = scope.draws.between(0, width - 1), scope.draws.between(0, height - 1)
        rows.append([left, top, scope.draws.between(left, width), scope.draws.between(top, height)])
    return np.array(rows, dtype=np.float64).reshape(count, 4)


def _sample_roi_align(scope: Scope, focus: Operand) -> Call | None:
    if 0 in focus.shape:
        return None
    return _roi_align(
        scope, focus, scope.draws.between(1, 3), scope.draws.between(1, 3), scope.draws.between(1, 3)
    )


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
    dims: Shape = (channels,)
    for _ in range(2):
        dims = (*dims, another_dim(scope, dims))
    return scope.supply(wanted.dtype, (1, *dims))


def _is_region(shape: Shape) -> bool:
    return len(shape) == 4 and is_filled(shape) and shape[0] <= 64


def _sample_roi_pool(scope: Scope, focus: Operand) -> Call | None:
    if 0 in focus.shape:
        return None
    return _roi_pool(
        scope, focus, scope.draws.between(1, 3), (scope.draws.between(1, 2), scope.draws.between(1, 2))
    )


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


def _bound_region(call: Call) -> tuple[Range, ...]:
    return (hull((call.operand(0).range, Range(0, 0))),)


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
    shape = (batch, channels * height, width)
    return Call(
        (scope.supply(wanted.dtype, shape), scope.fix_ints((height, width)), scope.fix_ints((height, 1)))
    )


def _sample_crop(scope: Scope, focus: Operand) -> Call | None:
    """A shape around the middle, larger or smaller along each axis."""
    if 0 in focus.shape:
        return None
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


_IMAGE = range(4, 5)

OPERATORS = (
    Operator(
        "RoiAlign",
        Kind.RESAMPLE,
        Arithmetic(Rounding.INSIDE, opens={"a maximum of corners or of samples": takes_maximum}),
        (F32, F64),
        _sample_roi_align,
        _infer_roi_align,
        _bound_region,
        _IMAGE,
        inverse=Inverse(recogniser(_is_region), _solve_roi_align),
        until=21,
    ),
    Operator(
        "MaxRoiPool",
        Kind.RESAMPLE,
        WHOLE,
        (F32, F16),
        _sample_roi_pool,
        _infer_roi_pool,
        _bound_region,
        _IMAGE,
        inverse=Inverse(recogniser(_is_region), _solve_roi_pool),
        until=21,
    ),
    Operator(
        "Col2Im",
        Kind.RESAMPLE,
        SUMS,
        (F32, F16),
        _sample_columns,
        _infer_columns,
        _bound_columns,
        range(3, 4),
        since=18,
        inverse=Inverse(recogniser(lambda shape: len(shape) == 4 and is_filled(shape)), _solve_columns),
    ),
    Operator(
        "CenterCropPad",
        Kind.PAD,
        Arithmetic(Rounding.NOTHING, dims_at=(1,)),
        (F32, F64, I32, I64, I8, U8, BOOL),
        _sample_crop,
        _infer_crop,
        _bound_region,
        ALONG,
        since=18,
        inverse=Inverse(recogniser(lambda shape: bool(shape) and is_filled(shape)), _solve_crop),
    ),
    Operator(
        "MaxUnpool",
        Kind.POOL,
        WHOLE,
        (F32, F16),
        _sample_unpool,
        _infer_unpool,
        _bound_region,
        _IMAGE,
        inverse=Inverse(recogniser(lambda shape: len(shape) == 4 and is_filled(shape)), _solve_unpool),
    ),
)
