"""Operators of torch itself on signals, images and volumes: pools, resizing, sampling, convolutions."""

import math
from collections.abc import Callable

import numpy as np

from oracles.operators.conv import IMAGES
from oracles.relation.arithmetic import MOVES, SUMS, SUMS_INSIDE, WHOLE, Arithmetic
from oracles.relation.aten import EVERY, FLOATING, WIDE, aten, moved_elements, times, with_places
from oracles.relation.open_checks import places_twice
from oracles.relation.operator import Operator, Sampler, TypeRule
from oracles.relation.program import IMAGE, MAX_ELEMENTS, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import Attributes, Choice, by_type, magnitudes, sampled_with, shaped
from oracles.relation.types import I64, NUMPY, DType, Range, Shape, TensorType


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


def _draw_window(dims: int, *, dilated: bool = False) -> Choice:
    """Windows over so many dims; sizes rounded up or down."""

    def draw(scope: Scope, focus: Operand) -> Attributes:
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


def _draw_average(dims: int) -> Choice:
    """Windows of means; over two dims, now and then with another divisor."""

    def draw(scope: Scope, focus: Operand) -> Attributes:
        window = _draw_window(dims)(scope, focus)
        divides = dims == 2 and scope.draws.chance(0.3)
        divisor: Attributes = {"divisor_override": scope.draws.between(1, 5)} if divides else {}
        return {**window, "count_include_pad": scope.draws.below(2), **divisor}

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


def _draw_sizes(dims: int, most: int = 6) -> Choice:
    def draw(scope: Scope, focus: Operand) -> Attributes:
        return {"output_size": tuple(scope.draws.between(1, most) for _ in range(dims))}

    return draw


def _sized(call: Call) -> Shape:
    """The last dims as they are asked for."""
    sizes = call.tuple_of("output_size", ())
    return (*call.operand(0).shape[: -len(sizes)], *sizes)


def _largest(
    name: str,
    sample: Sampler,
    shape: Callable[[Call], Shape],
    ranks: range,
    dtypes: tuple[DType, ...] = FLOATING,
) -> Operator:
    """The largest elements and where they were."""

    def infer(call: Call) -> tuple[TensorType, ...]:
        return TensorType(call.operand(0).dtype, shape(call)), TensorType(I64, shape(call))

    bound = with_places(infer)
    return aten(name, Kind.POOL, WHOLE, dtypes, sample, infer, ranks=ranks, bound=bound, filled=True)


def _fractions(dims: int) -> Sampler:
    """Windows of drawn places: the third operand holds one number below 1 a batch, channel and dim."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
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
    sizes = tuple(dim + scope.draws.between(0, 3) for dim in focus.shape[-2:])
    count, room = math.prod(focus.shape[:-2]), math.prod(sizes)
    if count * room > MAX_ELEMENTS:
        return None
    order = np.argsort(scope.draws.words(count * room).reshape(count, room), axis=1, kind="stable")
    index = order[:, : math.prod(focus.shape[-2:])].reshape(focus.shape).astype(np.int64)
    return Call((focus, scope.fix(index)), {"output_size": sizes})


# Resizing and sampling


def _draw_aligned(dims: int, most: int = 6) -> Choice:
    def draw(scope: Scope, focus: Operand) -> Attributes:
        return {**_draw_sizes(dims, most)(scope, focus), "align_corners": scope.draws.below(2)}

    return draw


def _sample_grid(scope: Scope, focus: Operand) -> Call:
    """Bilinear or cubic: the nearest element jumps half-way between two."""
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


# Pads and windows


def draw_border(dims: int, most: int) -> Choice:
    """Pads less than the dim (`most` is -1), up to it, or of any size."""

    def draw(scope: Scope, focus: Operand) -> Attributes:
        sizes = [focus.shape[-1 - place // 2] for place in range(2 * dims)]
        return {"padding": tuple(scope.draws.between(0, min(size + most, 3)) for size in sizes)}

    return draw


def padded(call: Call) -> Shape:
    """The shape with pads at both ends of its last dims."""
    dims, pads = list(call.operand(0).shape), call.tuple_of("padding", ()) or call.tuple_of("pad", ())
    for place, pad in enumerate(pads):
        dims[-1 - place // 2] += pad
    return tuple(dims)


def _bordered(name: str, dims: int, most: int) -> Operator:
    sample, infer = sampled_with(draw_border(dims, most)), shaped(padded)
    bound = moved_elements
    return aten(name, Kind.PAD, MOVES, FLOATING, sample, infer, ranks=_ranks(dims), bound=bound, filled=True)


def _draw_circle(scope: Scope, focus: Operand) -> Attributes:
    return {"pad": draw_border(focus.rank - 2, 0)(scope, focus)["padding"]}


def _draw_blocks(scope: Scope, focus: Operand) -> Attributes:
    kernel = tuple(scope.draws.between(1, min(size, 3)) for size in focus.shape[-2:])
    pads, stride = (scope.draws.below(2), scope.draws.below(2)), (scope.draws.between(1, 2), 1)
    return {"kernel_size": kernel, "dilation": (1, 1), "padding": pads, "stride": stride}


def _blocks(call: Call) -> Shape:
    batch, channels, *sizes = call.operand(0).shape
    kernel, pads, stride = (call.tuple_of(name, ()) for name in ("kernel_size", "padding", "stride"))
    counts = [
        (size + 2 * pad - width) // step + 1
        for size, width, pad, step in zip(sizes, kernel, pads, stride, strict=True)
    ]
    return (batch, channels * math.prod(kernel), math.prod(counts))


# Convolutions


def _sample_conv(scope: Scope, focus: Operand) -> Call | None:
    """The focus is the data; weights of filters in groups, a bias or none, transposed or not."""
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


def _affine(call: Call) -> Shape:
    return (call.operand(0).shape[0], *call.tuple_of("size", ())[2:], 2)


_POOLED, _SIZED = shaped(pooled), shaped(_sized)
_SAMPLED, _AFFINE, _CONVOLVED = shaped(_sampled), shaped(_affine), shaped(_convolved)
_UNPOOLS = Arithmetic(MOVES.rounding, MOVES.nonfinite, opens={"writes to one place twice": places_twice})


def _image(
    name: str,
    kind: Kind,
    arithmetic: Arithmetic,
    draw: Choice,
    infer: TypeRule,
    factor: float,
    ranks: range,
    dtypes: tuple[DType, ...] = FLOATING,
) -> Operator:
    """An entry of one operand, whose results are at most so many times as large."""
    sample = sampled_with(draw)
    return aten(name, kind, arithmetic, dtypes, sample, infer, times(factor), ranks, filled=True)


def _resized(name: str, dims: int, arithmetic: Arithmetic, draw: Choice) -> Operator:
    dtypes, ranks = FLOATING if arithmetic is MOVES else WIDE, _ranks(dims, batched=False)
    return _image(name, Kind.RESAMPLE, arithmetic, draw, _SIZED, 4, ranks, dtypes)


OPERATORS = (
    _image("avg_pool1d", Kind.POOL, SUMS, _draw_average(1), _POOLED, 27, _ranks(1)),
    _image("avg_pool2d", Kind.POOL, SUMS, _draw_average(2), _POOLED, 9, _ranks(2)),
    _image("avg_pool3d", Kind.POOL, SUMS, _draw_average(3), _POOLED, 27, _ranks(3), WIDE),
    _image("adaptive_avg_pool1d", Kind.POOL, SUMS, _draw_sizes(1), _SIZED, 27, _ranks(1)),
    _image("adaptive_avg_pool2d", Kind.POOL, SUMS, _draw_sizes(2, 5), _SIZED, 9, _ranks(2)),
    _image("adaptive_avg_pool3d", Kind.POOL, SUMS, _draw_sizes(3), _SIZED, 27, _ranks(3)),
    *(
        _largest(
            f"max_pool{dims}d_with_indices",
            sampled_with(_draw_window(dims, dilated=dims != 2)),
            pooled,
            _ranks(dims),
        )
        for dims in (1, 2, 3)
    ),
    *(
        _largest(f"adaptive_max_pool{dims}d", sampled_with(_draw_sizes(dims)), _sized, _ranks(dims))
        for dims in (1, 2, 3)
    ),
    *(
        _largest(f"fractional_max_pool{dims}d", _fractions(dims), _sized, _ranks(dims, batched=False), WIDE)
        for dims in (2, 3)
    ),
    aten("max_unpool2d", Kind.POOL, _UNPOOLS, WIDE, _sample_unpool, _SIZED, times(1), _ranks(2), filled=True),
    *(_resized(f"upsample_nearest{dims}d", dims, MOVES, _draw_sizes(dims)) for dims in (1, 3)),
    *(_resized(f"_upsample_nearest_exact{dims}d", dims, MOVES, _draw_sizes(dims)) for dims in (1, 2, 3)),
    _image("upsample_nearest2d", Kind.RESAMPLE, MOVES, _draw_sizes(2, 5), _SIZED, 9, IMAGE),
    _resized("upsample_linear1d", 1, SUMS_INSIDE, _draw_aligned(1)),
    _image("upsample_bilinear2d", Kind.RESAMPLE, SUMS, _draw_aligned(2, 5), _SIZED, 9, IMAGE),
    _resized("upsample_trilinear3d", 3, SUMS_INSIDE, _draw_aligned(3)),
    *(
        _resized(name, 2, SUMS_INSIDE, _draw_aligned(2))
        for name in ("upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
    ),
    aten("grid_sampler_2d", Kind.RESAMPLE, SUMS_INSIDE, WIDE, ranks=IMAGE, filled=True).by(
        _sample_grid, _SAMPLED, by_type(_SAMPLED, times(4))
    ),
    aten("affine_grid_generator", Kind.RESAMPLE, SUMS_INSIDE, WIDE, ranks=range(1, 4)).by(
        _sample_affine, _AFFINE, by_type(_AFFINE, times(4))
    ),
    *(_bordered(f"reflection_pad{dims}d", dims, -1) for dims in (1, 2, 3)),
    *(_bordered(f"replication_pad{dims}d", dims, 3) for dims in (1, 2, 3)),
    aten("_pad_circular", Kind.PAD, MOVES, EVERY, ranks=IMAGES, filled=True).by(
        sampled_with(_draw_circle), shaped(padded), moved_elements
    ),
    _image("im2col", Kind.LAYOUT, MOVES, _draw_blocks, shaped(_blocks), 9, IMAGE),
    aten("convolution", Kind.LINEAR, SUMS, WIDE, ranks=IMAGES, filled=True).by(
        _sample_conv, _CONVOLVED, by_type(_CONVOLVED, _weighed)
    ),
)
