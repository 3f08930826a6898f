"""Operators of torch itself on signals, images and volumes: pools, resizing, sampling, convolutions."""

import math
from collections.abc import Callable

import numpy as np

from oracles.relation.arithmetic import MOVES, SUMS, SUMS_INSIDE, WHOLE, Arithmetic
from oracles.relation.aten import (
    EVERY,
    FLOATING,
    WIDE,
    Attributes,
    aten,
    by_type,
    magnitudes,
    moved_elements,
    sampled_with,
    shaped,
    with_places,
)
from oracles.relation.open_checks import is_filled
from oracles.relation.operator import Operator, Sampler
from oracles.relation.overwrites import places_twice
from oracles.relation.program import MAX_ELEMENTS, Attribute, Call, Kind, Operand, Scope
from oracles.relation.types import NUMPY, DType, Range, Shape, TensorType

Draw = Callable[[Scope, Operand], Attributes | None]


def _ranks(dims: int, *, batched: bool = True) -> range:
    """Channels and these dims, with a batch before them or, where that is allowed, without."""
    return range(dims + (1 if batched else 2), dims + 3)


# Pools


def windows(scope: Scope, sizes: Shape) -> dict[str, tuple[int, ...]]:
    """Windows that fit such sizes, their steps, and pads of at most half of them."""
    kernel = tuple(scope.draws.between(1, min(size, 3)) for size in sizes)
    pads = tuple(scope.draws.between(0, width // 2) for width in kernel)
    steps = tuple(scope.draws.between(1, 3) for _ in kernel)
    return {"kernel_size": kernel, "stride": steps, "padding": pads}


def draw_window(dims: int, *, dilated: bool = False) -> Draw:
    """Windows over so many dims; sizes rounded up or down."""

    def draw(scope: Scope, focus: Operand) -> Attributes | None:
        if not is_filled(focus.shape):
            return None
        sizes = focus.shape[-dims:]
        drawn = windows(scope, sizes)
        window: dict[str, Attribute] = {**drawn}
        if dilated:
            fitting = zip(sizes, drawn["kernel_size"], strict=True)
            window["dilation"] = tuple(
                scope.draws.between(1, 2) if 2 * (width - 1) < size else 1 for size, width in fitting
            )
        return {**window, "ceil_mode": scope.draws.below(2)}

    return draw


def _draw_average(dims: int) -> Draw:
    def draw(scope: Scope, focus: Operand) -> Attributes | None:
        window = draw_window(dims)(scope, focus)
        return None if window is None else {**window, "count_include_pad": scope.draws.below(2)}

    return draw


def pooled(call: Call) -> Shape:
    """What windows leave of each dim: as torch counts them, none begins in the pads behind."""
    shape = call.operand(0).shape
    kernel, stride, pads = (call.tuple_of(name, ()) for name in ("kernel_size", "stride", "padding"))
    dilation = call.tuple_of("dilation", (1,) * len(kernel))
    sizes = []
    for size, width, step, pad, apart in zip(
        shape[-len(kernel) :], kernel, stride, pads, dilation, strict=True
    ):
        room = size + 2 * pad - apart * (width - 1) - 1
        count = (-(-room // step) if call.integer("ceil_mode", 0) else room // step) + 1
        sizes.append(count - 1 if (count - 1) * step >= size + pad else count)
    return (*shape[: -len(kernel)], *sizes)


def _draw_sizes(dims: int) -> Draw:
    def draw(scope: Scope, focus: Operand) -> Attributes | None:
        if not is_filled(focus.shape):
            return None
        return {"output_size": tuple(scope.draws.between(1, 6) for _ in range(dims))}

    return draw


def sized(call: Call) -> Shape:
    """The last dims as they are asked for."""
    sizes = call.tuple_of("output_size", ())
    return (*call.operand(0).shape[: -len(sizes)], *sizes)


def and_places(shape: Callable[[Call], Shape]) -> Callable[[Call], tuple[TensorType, ...]]:
    """The type rule of elements, and of where they were."""
    return lambda call: (TensorType(call.operand(0).dtype, shape(call)), TensorType(DType.I64, shape(call)))


def _largest(name: str, draw: Draw, shape: Callable[[Call], Shape], ranks: range) -> Operator:
    """The largest elements and where they were."""
    infer, sample = and_places(shape), sampled_with(draw)
    return aten(name, Kind.POOL, WHOLE, FLOATING, sample, infer, with_places(infer), ranks=ranks)


def _sample_fractions(dims: int) -> Sampler:
    """Windows of drawn places: the third operand holds one number below 1 a batch, channel and dim."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        if not is_filled(focus.shape):
            return None
        sizes = focus.shape[-dims:]
        if min(sizes) < 2:
            return None
        kernel = tuple(scope.draws.between(1, min(size - 1, 2)) for size in sizes)
        given = tuple(scope.draws.between(1, size - width) for size, width in zip(sizes, kernel, strict=True))
        shape = (*focus.shape[:2], dims)
        parts = (scope.draws.words(math.prod(shape)).reshape(shape) % 61 + 1) / 67
        samples = scope.fix(parts.astype(NUMPY[focus.dtype]), focus.dtype)
        return Call((focus, samples), {"kernel_size": kernel, "output_size": given})

    return sample


def _sample_unpool(scope: Scope, focus: Operand) -> Call | None:
    """Each element to a place of its own."""
    if not is_filled(focus.shape):
        return None
    sizes = tuple(dim + scope.draws.between(0, 3) for dim in focus.shape[-2:])
    count, room = math.prod(focus.shape[:-2]), math.prod(sizes)
    if count * room > MAX_ELEMENTS:
        return None
    order = np.argsort(scope.draws.words(count * room).reshape(count, room), axis=1, kind="stable")
    index = order[:, : math.prod(focus.shape[-2:])].reshape(focus.shape).astype(np.int64)
    return Call((focus, scope.fix(index)), {"output_size": sizes})


# Resizing and sampling


def _draw_aligned(dims: int) -> Draw:
    def draw(scope: Scope, focus: Operand) -> Attributes | None:
        sizes = _draw_sizes(dims)(scope, focus)
        return None if sizes is None else {**sizes, "align_corners": scope.draws.below(2)}

    return draw


def _resized(name: str, arithmetic: Arithmetic, draw: Draw, dims: int) -> Operator:
    infer = shaped(sized)
    bound = by_type(infer, lambda call: 4 * magnitudes(call)[0])
    ranks, sample = _ranks(dims, batched=False), sampled_with(draw)
    dtypes = FLOATING if arithmetic is MOVES else WIDE
    return aten(name, Kind.RESAMPLE, arithmetic, dtypes, sample, infer, bound, ranks=ranks)


def _sample_grid(scope: Scope, focus: Operand) -> Call | None:
    """Bilinear or cubic: the nearest element jumps half-way between two."""
    if not is_filled(focus.shape):
        return None
    shape = (focus.shape[0], scope.draws.between(1, 6), scope.draws.between(1, 6), 2)
    grid = scope.supply(focus.dtype, shape, Range(-1.5, 1.5))
    how: dict[str, Attribute] = {"interpolation_mode": scope.draws.pick((0, 2))}
    how["padding_mode"] = scope.draws.below(3)
    return Call((focus, grid), {**how, "align_corners": scope.draws.below(2)})


def _sampled(call: Call) -> Shape:
    return (*call.operand(0).shape[:2], *call.operand(1).shape[1:3])


def _sample_affine(scope: Scope, focus: Operand) -> Call | None:
    """Places of images: the focus gives their number alone."""
    if not focus.shape[0]:
        return None
    size = (focus.shape[0], 1, scope.draws.between(1, 6), scope.draws.between(1, 6))
    matrices = scope.supply(focus.dtype, (focus.shape[0], 2, 3), Range(-2, 2))
    return Call((matrices,), {"size": size, "align_corners": scope.draws.below(2)})


# Pads


def draw_border(dims: int, most: int) -> Draw:
    """Pads less than the dim (`most` is -1), up to it, or of any size."""

    def draw(scope: Scope, focus: Operand) -> Attributes | None:
        if not is_filled(focus.shape):
            return None
        sizes = [focus.shape[-1 - place // 2] for place in range(2 * dims)]
        return {"padding": tuple(scope.draws.between(0, min(size + most, 3)) for size in sizes)}

    return draw


def _padded(call: Call) -> Shape:
    dims, pads = list(call.operand(0).shape), call.tuple_of("padding", ()) or call.tuple_of("pad", ())
    for place, pad in enumerate(pads):
        dims[-1 - place // 2] += pad
    return tuple(dims)


def _bordered(name: str, dims: int, most: int, ranks: range) -> Operator:
    sample = sampled_with(draw_border(dims, most))
    return aten(name, Kind.PAD, MOVES, FLOATING, sample, shaped(_padded), moved_elements, ranks=ranks)


def _draw_circle(scope: Scope, focus: Operand) -> Attributes | None:
    pads = draw_border(focus.rank - 2, 0)(scope, focus)
    return None if pads is None else {"pad": pads["padding"]}


# Convolutions


def _sample_conv(scope: Scope, focus: Operand) -> Call | None:
    """The focus is the data; weights of filters in groups, a bias or none, transposed or not."""
    if not is_filled(focus.shape):
        return None
    channels, sizes = focus.shape[1], focus.shape[2:]
    groups = scope.draws.pick([count for count in (1, 1, 2, 3, channels) if channels % count == 0])
    filters = groups * scope.draws.between(1, 3)
    transposed = scope.draws.below(2)
    kernel = tuple(scope.draws.between(1, min(size, 3)) for size in sizes)
    lead = (channels, filters // groups) if transposed else (filters, channels // groups)
    weight = scope.supply(focus.dtype, (*lead, *kernel), Range(-4, 4))
    bias = scope.supply(focus.dtype, (filters,)) if scope.draws.chance(0.5) else None
    stride = tuple(scope.draws.between(1, 2) for _ in sizes)
    pads = tuple(scope.draws.between(0, width - 1) for width in kernel)
    more = tuple(scope.draws.below(step) if transposed else 0 for step in stride)
    attributes: dict[str, Attribute] = {"stride": stride, "padding": pads, "dilation": (1,) * len(sizes)}
    attributes |= {"transposed": transposed, "output_padding": more, "groups": groups}
    call = Call((focus, weight, bias), attributes)
    return call if min(_convolved(call)) > 0 and math.prod(_convolved(call)) <= MAX_ELEMENTS else None


def _convolved(call: Call) -> Shape:
    data, weight = call.operand(0).shape, call.operand(1).shape
    names = ("stride", "padding", "output_padding")
    steps, pads, more = (call.tuple_of(name, ()) for name in names)
    each = zip(data[2:], weight[2:], steps, pads, more, strict=True)
    if call.integer("transposed", 0):
        sizes = [(size - 1) * step - 2 * pad + width + extra for size, width, step, pad, extra in each]
        return (data[0], weight[1] * call.integer("groups", 1), *sizes)
    sizes = [(size + 2 * pad - width) // step + 1 for size, width, step, pad, _ in each]
    return (data[0], weight[0], *sizes)


def _weighed(call: Call) -> float:
    first, second, *bias = magnitudes(call)
    return first * second * math.prod(call.operand(1).shape) + sum(bias)


_CONVOLVED, _SAMPLED, _unpooledOOLED = shaped(_convolved), shaped(_sampled), shaped(sized)
_AFFINE = shaped(lambda call: (call.operand(0).shape[0], *call.tuple_of("size", ())[2:], 2))


def _pool(
    name: str,
    draw: Draw,
    shape: Callable[[Call], Shape],
    ranks: range,
    dtypes: tuple[DType, ...] = FLOATING,
) -> Operator:
    infer = shaped(shape)
    bound = by_type(infer, lambda call: 27 * magnitudes(call)[0])
    return aten(name, Kind.POOL, SUMS, dtypes, sampled_with(draw), infer, bound, ranks=ranks)


OPERATORS = (
    _pool("avg_pool1d", _draw_average(1), pooled, _ranks(1)),
    _pool("avg_pool3d", _draw_average(3), pooled, _ranks(3), WIDE),
    _pool("adaptive_avg_pool1d", _draw_sizes(1), sized, _ranks(1)),
    _pool("adaptive_avg_pool3d", _draw_sizes(3), sized, _ranks(3)),
    _largest("max_pool1d_with_indices", draw_window(1, dilated=True), pooled, _ranks(1)),
    _largest("max_pool3d_with_indices", draw_window(3, dilated=True), pooled, _ranks(3)),
    _largest("adaptive_max_pool1d", _draw_sizes(1), sized, _ranks(1)),
    _largest("adaptive_max_pool2d", _draw_sizes(2), sized, _ranks(2)),
    _largest("adaptive_max_pool3d", _draw_sizes(3), sized, _ranks(3)),
    *(
        aten(
            f"fractional_max_pool{dims}d",
            Kind.POOL,
            WHOLE,
            WIDE,
            _sample_fractions(dims),
            and_places(sized),
            with_places(and_places(sized)),
            ranks=_ranks(dims, batched=False),
        )
        for dims in (2, 3)
    ),
    aten(
        "max_unpool2d",
        Kind.POOL,
        Arithmetic(MOVES.rounding, MOVES.nonfinite, opens={"writes to one place twice": places_twice}),
        WIDE,
        _sample_unpool,
        _unpooledOOLED,
        by_type(_unpooledOOLED, lambda call: magnitudes(call)[0]),
        ranks=_ranks(2),
    ),
    *(_resized(f"upsample_nearest{dims}d", MOVES, _draw_sizes(dims), dims) for dims in (1, 3)),
    *(_resized(f"_upsample_nearest_exact{dims}d", MOVES, _draw_sizes(dims), dims) for dims in (1, 2, 3)),
    _resized("upsample_linear1d", SUMS_INSIDE, _draw_aligned(1), 1),
    _resized("upsample_trilinear3d", SUMS_INSIDE, _draw_aligned(3), 3),
    _resized("upsample_bicubic2d", SUMS_INSIDE, _draw_aligned(2), 2),
    _resized("_upsample_bilinear2d_aa", SUMS_INSIDE, _draw_aligned(2), 2),
    _resized("_upsample_bicubic2d_aa", SUMS_INSIDE, _draw_aligned(2), 2),
    aten(
        "grid_sampler_2d",
        Kind.RESAMPLE,
        SUMS_INSIDE,
        WIDE,
        _sample_grid,
        _SAMPLED,
        by_type(_SAMPLED, lambda call: 4 * magnitudes(call)[0]),
        ranks=_ranks(2, batched=False),
    ),
    aten(
        "affine_grid_generator",
        Kind.RESAMPLE,
        SUMS_INSIDE,
        WIDE,
        _sample_affine,
        _AFFINE,
        by_type(_AFFINE, lambda call: 4 * magnitudes(call)[0]),
        ranks=range(1, 4),
    ),
    _bordered("reflection_pad3d", 3, -1, _ranks(3)),
    _bordered("replication_pad3d", 3, 3, _ranks(3)),
    aten(
        "_pad_circular",
        Kind.PAD,
        MOVES,
        EVERY,
        sampled_with(_draw_circle),
        shaped(_padded),
        moved_elements,
        ranks=range(3, 6),
    ),
    aten(
        "convolution",
        Kind.LINEAR,
        SUMS,
        WIDE,
        _sample_conv,
        _CONVOLVED,
        by_type(_CONVOLVED, _weighed),
        ranks=range(3, 6),
    ),
)
