"""Convolutions, pooling, and the padding that goes before them."""

from __future__ import annotations

import math

from generators.entries import window as back
from generators.language.intervals import hull, symmetric
from generators.language.operator import Operator, averaged_range
from generators.language.program import MAX_RANK, Attribute, Call, Kind, Operand
from generators.language.scope import Scope
from generators.language.types import (
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    U32,
    U64,
    Range,
    Shape,
    TensorType,
    is_float,
)

_IMAGES = range(3, MAX_RANK + 1)
_AUTO = ("SAME_UPPER", "SAME_LOWER", "VALID")


_RATES = (0.25, 0.25, 0.8)
"""How often each attribute of a window is given: few of them, or most, so that all meet in one call too."""


def _window(scope: Scope, focus: Operand, rate: float) -> tuple[Shape, dict[str, Attribute]] | None:
    """A window that fits the image: its size, and the strides and pads that are not left out."""
    draws = scope.draws
    spatial = focus.shape[2:]
    if 0 in focus.shape[1:]:
        return None
    kernel = tuple(draws.between(1, min(3, dim)) for dim in spatial)
    attributes: dict[str, Attribute] = {}
    if draws.chance(rate):
        attributes["strides"] = tuple(draws.pick((1, 2, 2, 3)) for _ in spatial)
    if draws.chance(rate):
        attributes["pads"] = tuple(draws.between(0, size - 1) for size in (*kernel, *kernel))
    elif draws.chance(0.25) and min(kernel) > 1:
        attributes["auto_pad"] = draws.pick(_AUTO)
    return kernel, attributes


def _dilate(
    scope: Scope, focus: Operand, kernel: Shape, attributes: dict[str, Attribute], rate: float
) -> None:
    """Spread the window where it still fits without any pads."""
    fits = all((size - 1) * 2 + 1 <= dim for size, dim in zip(kernel, focus.shape[2:], strict=True))
    if fits and "auto_pad" not in attributes and scope.draws.chance(0.6 * rate):
        attributes["dilations"] = (2,) * len(kernel)


def _image_shape(call: Call, kernel: Shape) -> Shape:
    """The spatial dims after a window has gone over the image."""
    spatial = call.operand(0).shape[2:]
    strides = call.tuple_of("strides", (1,) * len(spatial))
    if call.attributes.get("auto_pad") in ("SAME_UPPER", "SAME_LOWER"):
        return tuple(-(-dim // stride) for dim, stride in zip(spatial, strides, strict=True))
    rooms = zip(_rooms(call, kernel), strides, strict=True)
    if call.attributes.get("ceil_mode"):
        return tuple(-(-room // stride) + 1 for room, stride in rooms)
    return tuple(room // stride + 1 for room, stride in rooms)


def _rooms(call: Call, kernel: Shape) -> list[int]:
    """How far the window can be moved along each axis."""
    spatial = call.operand(0).shape[2:]
    rank = len(spatial)
    pads = call.tuple_of("pads", (0,) * (2 * rank))
    steps = call.tuple_of("dilations", (1,) * rank)
    return [
        dim + pads[axis] + pads[axis + rank] - (kernel[axis] - 1) * steps[axis] - 1
        for axis, dim in enumerate(spatial)
    ]


def _starts_inside(call: Call, kernel: Shape) -> bool:
    """Whether no window starts in the end padding: opsets disagree whether such a window counts."""
    spatial = call.operand(0).shape[2:]
    rank = len(spatial)
    strides, pads = call.tuple_of("strides", (1,) * rank), call.tuple_of("pads", (0,) * rank)
    counts = _image_shape(call, kernel)
    return all((counts[a] - 1) * strides[a] < dim + pads[a] for a, dim in enumerate(spatial))


def _divisor(scope: Scope, *counts: int) -> int:
    """A number of groups: often 1, often every channel for itself."""
    common = math.gcd(*counts)
    return scope.draws.pick([1, 1, common, *(n for n in range(2, common) if common % n == 0)])


def sample_conv(scope: Scope, focus: Operand) -> Call | None:
    """A weight, and the attributes of a convolution of the focus."""
    rate = scope.draws.pick(_RATES)
    window = _window(scope, focus, rate)
    if window is None:
        return None
    kernel, attributes = window
    _dilate(scope, focus, kernel, attributes, rate)
    channels = focus.shape[1]
    group = _divisor(scope, channels)
    features = group * scope.draws.pick((1, 2, 3))
    if group > 1:
        attributes["group"] = group
    if scope.draws.chance(0.6):
        attributes["kernel_shape"] = kernel
    weight = scope.supply(focus.dtype, (features, channels // group, *kernel))
    return Call((focus, weight), attributes)


def with_bias(scope: Scope, call: Call) -> Call:
    """The convolution with one more value a feature, or as it is."""
    weight = call.operand(1)
    if scope.draws.chance(0.5):
        return call
    return call._replace(operands=(*call.operands, scope.supply(weight.dtype, weight.shape[:1])))


def _sample_biased(scope: Scope, focus: Operand) -> Call | None:
    call = sample_conv(scope, focus)
    return None if call is None else with_bias(scope, call)


def conv_shape(call: Call, weight: Operand) -> Shape:
    """The shape that a convolution with this weight gives."""
    return (call.operand(0).shape[0], weight.shape[0], *_image_shape(call, weight.shape[2:]))


def _infer_conv(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(call.operand(0).dtype, conv_shape(call, call.operand(1))),)


def _bound_conv(call: Call) -> tuple[Range, ...]:
    image, weight, bias = call.operand(0), call.operand(1), call.optional(2)
    total = math.prod(weight.shape[1:]) * image.range.magnitude * weight.range.magnitude
    return (symmetric(total + (bias.range.magnitude if bias else 0)),)


def _sample_transposed(scope: Scope, focus: Operand) -> Call | None:
    draws = scope.draws
    if 0 in focus.shape[1:]:
        return None
    rank = focus.rank - 2
    kernel = tuple(draws.between(1, 3) for _ in range(rank))
    attributes: dict[str, Attribute] = {}
    strides = (1,) * rank
    if draws.chance(0.5):
        attributes["strides"] = strides = tuple(draws.between(1, 2) for _ in range(rank))
    if draws.chance(0.3) and min(focus.shape[2:]) > 2:
        attributes["pads"] = tuple(draws.between(0, 1) for _ in range(2 * rank))
    if draws.chance(0.2):
        attributes["dilations"] = tuple(draws.between(1, 2) for _ in range(rank))
    if draws.chance(0.3):
        attributes["kernel_shape"] = kernel
    if draws.chance(0.2):
        attributes["output_padding"] = tuple(draws.between(0, stride - 1) for stride in strides)
    channels = focus.shape[1]
    group = _divisor(scope, channels)
    if group > 1:
        attributes["group"] = group
    features = draws.pick((1, 2, 3))
    weight = scope.supply(focus.dtype, (channels, features, *kernel))
    operands: tuple[Operand, ...] = (focus, weight)
    if draws.chance(0.5):
        operands = (focus, weight, scope.supply(focus.dtype, (features * group,)))
    return Call(operands, attributes)


def _infer_transposed(call: Call) -> tuple[TensorType, ...]:
    image, weight = call.operand(0), call.operand(1)
    rank = image.rank - 2
    strides, pads = call.tuple_of("strides", (1,) * rank), call.tuple_of("pads", (0,) * (2 * rank))
    extra, steps = call.tuple_of("output_padding", (0,) * rank), call.tuple_of("dilations", (1,) * rank)
    spatial = (
        strides[axis] * (image.shape[axis + 2] - 1)
        + extra[axis]
        + (weight.shape[axis + 2] - 1) * steps[axis]
        + 1
        - pads[axis]
        - pads[axis + rank]
        for axis in range(rank)
    )
    return (TensorType(image.dtype, (image.shape[0], weight.shape[1] * call.integer("group", 1), *spatial)),)


def _bound_transposed(call: Call) -> tuple[Range, ...]:
    image, weight, bias = call.operand(0), call.operand(1), call.optional(2)
    count = weight.shape[0] * math.prod(weight.shape[2:])
    total = count * image.range.magnitude * weight.range.magnitude
    return (symmetric(total + (bias.range.magnitude if bias else 0)),)


def _sample_max_pool(scope: Scope, focus: Operand) -> Call | None:
    rate = scope.draws.pick(_RATES)
    window = _window(scope, focus, rate)
    if window is None:
        return None
    kernel, attributes = window
    _dilate(scope, focus, kernel, attributes, rate)
    attributes["kernel_shape"] = kernel
    if scope.draws.chance(0.6 * rate):
        attributes["ceil_mode"] = 1
    # Indices come with floats of 32 bits only: the kernels for the other types do not all give them.
    results = 2 if focus.dtype is F32 and scope.draws.chance(0.35) else 1
    if results == 2 and scope.draws.chance(0.2):
        attributes["storage_order"] = 1
    call = Call((focus,), attributes, results)
    return call if _starts_inside(call, kernel) else None


def _sample_pool(scope: Scope, focus: Operand, dilated_since: int, **choices: tuple[int, ...]) -> Call | None:
    rate = scope.draws.pick(_RATES)
    window = _window(scope, focus, rate)
    if window is None:
        return None
    kernel, attributes = window
    if scope.opset >= dilated_since:
        _dilate(scope, focus, kernel, attributes, rate)
    attributes["kernel_shape"] = kernel
    for name, values in choices.items():
        if scope.draws.chance(1.2 * rate):
            attributes[name] = scope.draws.pick(values)
    call = Call((focus,), attributes)
    return call if _starts_inside(call, kernel) else None


def _sample_lp_pool(scope: Scope, focus: Operand) -> Call | None:
    if scope.opset < 18:
        return _sample_pool(scope, focus, 18, p=(1, 2, 3))
    return _sample_pool(scope, focus, 18, p=(1, 2, 3), ceil_mode=(0, 1))


def _infer_pool(call: Call) -> tuple[TensorType, ...]:
    image = call.operand(0)
    shape = image.shape[:2] + _image_shape(call, call.tuple_of("kernel_shape", ()))
    return (TensorType(image.dtype, shape), TensorType(I64, shape))[: call.results]


def _bound_max_pool(call: Call) -> tuple[Range, ...]:
    image = call.operand(0)
    return (image.range, Range(0, max(math.prod(image.shape) - 1, 0)))[: call.results]


def _bound_average(call: Call) -> tuple[Range, ...]:
    return (hull((call.operand(0).range, Range(0, 0))),)


def _bound_lp(call: Call) -> tuple[Range, ...]:
    image = call.operand(0)
    count = math.prod(call.tuple_of("kernel_shape", image.shape[2:]))
    return (Range(0, count * image.range.magnitude),)


def _sample_global(scope: Scope, focus: Operand) -> Call | None:
    return None if 0 in focus.shape[1:] else Call((focus,))


def _sample_global_lp(scope: Scope, focus: Operand) -> Call | None:
    return None if 0 in focus.shape[1:] else Call((focus,), {"p": scope.draws.pick((1, 2))})


def _infer_global(call: Call) -> tuple[TensorType, ...]:
    image = call.operand(0)
    return (TensorType(image.dtype, image.shape[:2] + (1,) * (image.rank - 2)),)


def _sample_pad(scope: Scope, focus: Operand) -> Call | None:
    """Pads at either end of each axis; they may be negative (a crop) where the mode is constant."""
    draws = scope.draws
    modes = ("constant", "constant", "constant", "reflect", "edge") + (("wrap",) if scope.opset >= 19 else ())
    mode = draws.pick(modes)
    if mode != "constant" and (0 in focus.shape or focus.dtype is BOOL):
        return None
    least = -1 if mode == "constant" and draws.chance(0.2) else 0
    inside = [axis for axis in range(focus.rank) if focus.rank < 3 or axis > 1 or draws.chance(0.15)]
    pads = [0] * (2 * focus.rank)
    for axis in inside:
        most = 2 if mode == "constant" else min(2, focus.shape[axis] - 1)
        for end in (axis, axis + focus.rank):
            pads[end] = draws.between(least if focus.shape[axis] > 2 else 0, most)
    attributes: dict[str, Attribute] = {} if mode == "constant" and draws.chance(0.5) else {"mode": mode}
    filling = None
    if mode == "constant" and draws.chance(0.7):
        value = draws.pick((0, 0, 0, 1, -1, 2) if is_float(focus.dtype) else (0, 0, 1, 2))
        filling = scope.fix_scalar(value, focus.dtype)
    if scope.opset >= 18 and inside and draws.chance(0.3):
        named = tuple(axis - focus.rank if draws.chance(0.3) else axis for axis in inside)
        given = [pads[axis] for axis in inside] + [pads[axis + focus.rank] for axis in inside]
        return Call((focus, scope.fix_ints(given), filling, scope.fix_ints(named)), attributes)
    steering = scope.fix_ints(pads)
    return Call((focus, steering) if filling is None else (focus, steering, filling), attributes)


def _infer_pad(call: Call) -> tuple[TensorType, ...]:
    data, pads = call.operand(0), call.ints(1) or ()
    axes = call.ints(3) or tuple(range(data.rank))
    shape = list(data.shape)
    for at, axis in enumerate(axes):
        shape[axis] += pads[at] + pads[at + len(axes)]
    return (TensorType(data.dtype, tuple(shape)),)


def _bound_pad(call: Call) -> tuple[Range, ...]:
    filling = call.optional(2)
    return (hull((call.operand(0).range, filling.range if filling else Range(0, 0))),)


_PADDED = (F32, F64, F16, I8, U8, I32, I64, U32, U64, BOOL)

OPERATORS = (
    Operator(
        "Conv", Kind.LINEAR, (F32, F16), _sample_biased, _infer_conv, _bound_conv, _IMAGES, inverse=back.CONV
    ),
    Operator(
        "ConvTranspose",
        Kind.LINEAR,
        (F32,),
        _sample_transposed,
        _infer_transposed,
        _bound_transposed,
        _IMAGES,
        inverse=back.TRANSPOSED,
    ),
    Operator(
        "MaxPool",
        Kind.POOL,
        (F32, F64, F16, I8, U8),
        _sample_max_pool,
        _infer_pool,
        _bound_max_pool,
        _IMAGES,
        inverse=back.POOL,
    ),
    Operator(
        "AveragePool",
        Kind.POOL,
        (F32, F16),
        lambda scope, focus: _sample_pool(scope, focus, 19, ceil_mode=(0, 1), count_include_pad=(0, 1)),
        _infer_pool,
        _bound_average,
        _IMAGES,
        inverse=back.POOL,
    ),
    Operator(
        "LpPool",
        Kind.POOL,
        (F32, F16),
        _sample_lp_pool,
        _infer_pool,
        _bound_lp,
        _IMAGES,
        inverse=back.POOL,
    ),
    Operator(
        "GlobalAveragePool",
        Kind.POOL,
        (F32, F16),
        _sample_global,
        _infer_global,
        averaged_range,
        _IMAGES,
        inverse=back.GLOBAL,
    ),
    Operator(
        "GlobalMaxPool",
        Kind.POOL,
        (F32, F16),
        _sample_global,
        _infer_global,
        ranks=_IMAGES,
        inverse=back.GLOBAL,
    ),
    Operator(
        "GlobalLpPool",
        Kind.POOL,
        (F32, F16),
        _sample_global_lp,
        _infer_global,
        _bound_lp,
        _IMAGES,
        until=21,
        inverse=back.GLOBAL,
    ),
    Operator(
        "Pad",
        Kind.PAD,
        _PADDED,
        _sample_pad,
        _infer_pad,
        _bound_pad,
        range(1, MAX_RANK + 1),
        inverse=back.PAD,
    ),
)
