"""Convolutions, and what they share with pooling: windows, strides, dilations, pads."""

import math

from oracles.relation.arithmetic import Arithmetic, Rounding, of_conv, of_conv_transpose, symmetric
from oracles.relation.operator import Operator
from oracles.relation.program import MAX_RANK, Attribute, Call, Kind, Operand, Scope, fits, require
from oracles.relation.rules import inverted, shaped
from oracles.relation.types import F16, F32, Range, Shape, TensorType, is_filled

IMAGES = range(3, MAX_RANK + 1)
_AUTO = ("SAME_UPPER", "SAME_LOWER", "VALID")


_RATES = (0.25, 0.25, 0.8)
"""How often each attribute of a window is given: few of them, or most, so that all meet in one call too."""


def draw_window(
    scope: Scope, focus: Operand, *, dilates: bool = True
) -> tuple[float, Shape, dict[str, Attribute]] | None:
    """A window that fits the image: the rate of its attributes, its size, and those that are not left out.

    It is spread where it still fits without any pads.
    """
    draws, spatial = scope.draws, focus.shape[2:]
    rate = draws.pick(_RATES)
    if 0 in focus.shape[1:]:
        return None
    kernel = tuple(scope.amount(range(1, min(3, dim) + 1), min(dim, 16)) for dim in spatial)
    attributes: dict[str, Attribute] = {}
    if draws.chance(rate):
        attributes["strides"] = tuple(scope.amount((1, 2, 2, 3), 16) for _ in spatial)
    if draws.chance(rate):
        attributes["pads"] = tuple(scope.amount(range(size), size - 1) for size in (*kernel, *kernel))
    elif draws.chance(0.25) and min(kernel) > 1:
        attributes["auto_pad"] = draws.pick(_AUTO)
    pairs = tuple(zip(kernel, spatial, strict=True))
    fits = dilates and all((size - 1) * 2 + 1 <= dim for size, dim in pairs)
    if fits and "auto_pad" not in attributes and draws.chance(0.6 * rate):
        attributes["dilations"] = tuple(_gap(scope, *each) for each in pairs)
    return rate, kernel, attributes


def _gap(scope: Scope, size: int, dim: int) -> int:
    """How far the elements of a window lie apart, so that the window fits without any pads."""
    most = (dim - 1) // (size - 1) if size > 1 else 4
    return scope.amount((2,), most) if scope.profile.binned else 2


def image_shape(call: Call, kernel: Shape) -> Shape:
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
    """Count the positions of the window along each axis."""
    spatial = call.operand(0).shape[2:]
    rank = len(spatial)
    pads = call.tuple_of("pads", (0,) * (2 * rank))
    steps = call.tuple_of("dilations", (1,) * rank)
    return [
        dim + pads[axis] + pads[axis + rank] - (kernel[axis] - 1) * steps[axis] - 1
        for axis, dim in enumerate(spatial)
    ]


def _divisor(scope: Scope, *counts: int) -> int:
    """A number of groups: often 1, often every channel for itself."""
    common = math.gcd(*counts)
    return scope.draws.pick([1, 1, common, *(n for n in range(2, common) if common % n == 0)])


def sample_conv(scope: Scope, focus: Operand) -> Call | None:
    """A weight, and the attributes of a convolution of the focus."""
    window = draw_window(scope, focus)
    if window is None:
        return None
    _, kernel, attributes = window
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


def convolved(call: Call, at: int = 1) -> Shape:
    """The shape that a convolution gives; its weight is the operand at this place."""
    weight = call.operand(at)
    channels = weight.shape[1] * call.integer("group", 1)
    require(call.operand(0).shape[1] == channels, "each group has its channels")
    return (call.operand(0).shape[0], weight.shape[0], *image_shape(call, weight.shape[2:]))


def _bound_conv(call: Call) -> tuple[Range, ...]:
    image, weight, bias = call.operand(0), call.operand(1), call.optional(2)
    total = math.prod(weight.shape[1:]) * image.range.magnitude * weight.range.magnitude
    return (symmetric(total + (bias.range.magnitude if bias else 0)),)


def _sample_transposed(scope: Scope, focus: Operand) -> Call | None:
    draws = scope.draws
    if 0 in focus.shape[1:]:
        return None
    rank = focus.rank - 2
    kernel = tuple(scope.amount((1, 2, 3), 8) for _ in range(rank))
    attributes: dict[str, Attribute] = {}
    strides = (1,) * rank
    if draws.chance(0.5):
        attributes["strides"] = strides = tuple(scope.amount((1, 2), 8) for _ in range(rank))
    if draws.chance(0.3) and min(focus.shape[2:]) > 2:
        attributes["pads"] = tuple(draws.between(0, 1) for _ in range(2 * rank))
    if draws.chance(0.2):
        attributes["dilations"] = tuple(scope.amount((1, 2), 4) for _ in range(rank))
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
    require(image.shape[1] == weight.shape[0], "a weight for each channel")
    require(image.shape[1] % call.integer("group", 1) == 0, "groups of channels")
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


Attributes = dict[str, Attribute]


def is_image(shape: Shape) -> bool:
    """A batch, which may be empty, of channels over one to three spatial axes."""
    return 3 <= len(shape) <= MAX_RANK and is_filled(shape[1:])


def window_before(scope: Scope, spatial: Shape) -> tuple[Shape, Shape, Attributes]:
    """A window, the spatial dims from which it leads to the wanted ones, and its strides and pads."""
    draws = scope.draws
    kernel = tuple(scope.amount((1, 2, 3), 8) for _ in spatial)
    strides = tuple(scope.amount((1, 1, 2), 8) for _ in spatial)
    source = tuple((dim - 1) * s + k for dim, s, k in zip(spatial, strides, kernel, strict=True))
    attributes: Attributes = {"strides": strides} if max(strides) > 1 else {}
    pads = tuple(draws.between(0, min(k - 1, dim - 1)) for k, dim in zip(kernel, source, strict=True))
    if max(pads) and draws.chance(0.6):
        attributes["pads"] = (*pads, *(0 for _ in pads))
        source = tuple(dim - pad for dim, pad in zip(source, pads, strict=True))
    return kernel, source, attributes


def _channels(scope: Scope, features: int) -> tuple[int, int]:
    """Groups, and channels in each group."""
    groups = scope.draws.pick([1, 1, *(n for n in range(2, features + 1) if features % n == 0)])
    return groups, scope.draws.pick((1, 2, 3))


def _bias(scope: Scope, wanted: TensorType) -> tuple[Operand, ...]:
    return (scope.supply(wanted.dtype, wanted.shape[1:2]),) if scope.draws.chance(0.5) else ()


def solve_conv(scope: Scope, wanted: TensorType) -> Call:
    """A convolution without a bias."""
    batch, features, *spatial = wanted.shape
    kernel, source, attributes = window_before(scope, tuple(spatial))
    groups, channels = _channels(scope, features)
    image, weight = (batch, groups * channels, *source), (features, channels, *kernel)
    if not fits(image, weight):
        groups, attributes = 1, {}
        image, weight = (batch, 1, *spatial), (features, 1, *(1 for _ in spatial))
    if groups > 1:
        attributes["group"] = groups
    return Call((scope.supply(wanted.dtype, image), scope.supply(wanted.dtype, weight)), attributes)


def _solve_conv(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    call = solve_conv(scope, wanted)
    return call._replace(operands=(*call.operands, *_bias(scope, wanted)))


def _solve_transposed(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    batch, features, *spatial = wanted.shape
    kernel = tuple(scope.amount(range(1, min(3, dim) + 1), dim) for dim in spatial)
    source = tuple(dim - k + 1 for dim, k in zip(spatial, kernel, strict=True))
    groups, channels = _channels(scope, features)
    image, weight = (batch, groups * channels, *source), (groups * channels, features // groups, *kernel)
    if not fits(image, weight):
        groups = 1
        image, weight = (batch, 1, *spatial), (1, features, *(1 for _ in spatial))
    operands = (scope.supply(wanted.dtype, image), scope.supply(wanted.dtype, weight), *_bias(scope, wanted))
    return Call(operands, {"group": groups} if groups > 1 else {})


CONV, _TRANSPOSED = inverted(is_image, _solve_conv), inverted(is_image, _solve_transposed)
_CONVOLVED = shaped(convolved)
_SUMS = Arithmetic(Rounding.TERMS, terms=of_conv, keeps_whole=True)
_TURNED = Arithmetic(Rounding.TERMS, terms=of_conv_transpose)

OPERATORS = (
    Operator("Conv", Kind.LINEAR, _SUMS, (F32, F16), _sample_biased, _CONVOLVED, _bound_conv, IMAGES, CONV),
    Operator("ConvTranspose", Kind.LINEAR, _TURNED, (F32,), ranks=IMAGES).by(
        _sample_transposed, _infer_transposed, _bound_transposed, _TRANSPOSED
    ),
)
