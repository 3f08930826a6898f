"""Pooling, global and by windows, and Pad."""

import math
from dataclasses import replace

from oracles.operators.conv import IMAGES, draw_window, image_shape, is_image, window_before
from oracles.relation.arithmetic import SUMS, SUMS_INSIDE, WHOLE, Arithmetic, Rounding, hull, of_kernel
from oracles.relation.open_checks import WINDOW
from oracles.relation.operator import Operator, RangeRule, Sampler, averaged_range, same_range
from oracles.relation.program import ALONG, LAST_OPSET, Attribute, Call, Kind, Operand, Scope, fits
from oracles.relation.rules import Choice, choices, inverted, shaped, with_more_dims, with_supplied, with_zero
from oracles.relation.types import (
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
    DType,
    Range,
    Shape,
    TensorType,
    is_float,
)


def _starts_inside(call: Call, kernel: Shape) -> bool:
    """Whether no window starts in the end padding: opsets disagree whether such a window counts."""
    spatial = call.operand(0).shape[2:]
    rank = len(spatial)
    strides, pads = call.tuple_of("strides", (1,) * rank), call.tuple_of("pads", (0,) * rank)
    counts = image_shape(call, kernel)
    return all((counts[a] - 1) * strides[a] < dim + pads[a] for a, dim in enumerate(spatial))


def _sample_max_pool(scope: Scope, focus: Operand) -> Call | None:
    window = draw_window(scope, focus)
    if window is None:
        return None
    rate, kernel, attributes = window
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
    window = draw_window(scope, focus, dilates=scope.opset >= dilated_since)
    if window is None:
        return None
    rate, kernel, attributes = window
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
    shape = image.shape[:2] + image_shape(call, call.tuple_of("kernel_shape", ()))
    return (TensorType(image.dtype, shape), TensorType(I64, shape))[: call.results]


def _bound_max_pool(call: Call) -> tuple[Range, ...]:
    image = call.operand(0)
    return (image.range, Range(0, max(math.prod(image.shape) - 1, 0)))[: call.results]


def _bound_lp(call: Call) -> tuple[Range, ...]:
    image = call.operand(0)
    count = math.prod(call.tuple_of("kernel_shape", image.shape[2:]))
    return (Range(0, count * image.range.magnitude),)


def pooled(call: Call) -> Shape:
    """The shape of a pool of whole images."""
    shape = call.operand(0).shape
    return (*shape[:2], *(1 for _ in shape[2:]))


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
            pads[end] = scope.amount(range(least if focus.shape[axis] > 2 else 0, most + 1), most)
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


def _solve_pool(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    kernel, source, attributes = window_before(scope, wanted.shape[2:])
    image = (*wanted.shape[:2], *source)
    if not fits(image):
        kernel, image, attributes = tuple(1 for _ in kernel), wanted.shape, {}
    call = with_supplied(scope, wanted, image)
    return call._replace(attributes={**attributes, "kernel_shape": kernel})


def _solve_global(operator: Operator, scope: Scope, wanted: TensorType) -> Call | None:
    dims = with_more_dims(scope, wanted.shape[:2], len(wanted.shape) - 2)
    return operator.sample(scope, scope.supply(wanted.dtype, dims))


def _is_pooled(shape: Shape) -> bool:
    return is_image(shape) and set(shape[2:]) == {1}


def _solve_pad(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    before = [scope.amount(range(min(2, dim - 1) + 1), dim - 1) if dim else 0 for dim in shape]
    after = [
        scope.amount(range(min(2, dim - pad) + 1), dim - pad) if dim else 0
        for dim, pad in zip(shape, before, strict=True)
    ]
    source = tuple(dim - a - b for dim, a, b in zip(shape, before, after, strict=True))
    return with_supplied(scope, wanted, source, scope.fix_ints((*before, *after)))


def _pool(
    name: str,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    sample: Sampler,
    bound: RangeRule,
) -> Operator:
    inverse = inverted(is_image, _solve_pool)
    return Operator(name, Kind.POOL, arithmetic, dtypes, sample, _infer_pool, bound, IMAGES, inverse)


_NOTHING = choices()


def _global(
    name: str, arithmetic: Arithmetic, bound: RangeRule, draw: Choice = _NOTHING, until: int = LAST_OPSET
) -> Operator:
    """A pool of whole images, which hold elements; there may be no image."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        return Call((focus,), draw(scope, focus)) if is_image(focus.shape) else None

    infer, inverse, dtypes = shaped(pooled), inverted(_is_pooled, _solve_global), (F32, F16)
    return Operator(name, Kind.POOL, arithmetic, dtypes, sample, infer, bound, IMAGES, inverse, until=until)


_OPENS = Arithmetic(Rounding.NOTHING, opens=WINDOW)

OPERATORS = (
    _pool("MaxPool", _OPENS, (F32, F64, F16, I8, U8), _sample_max_pool, _bound_max_pool),
    _pool(
        "AveragePool",
        replace(_OPENS, rounding=Rounding.TERMS, terms=of_kernel),
        (F32, F16),
        lambda scope, focus: _sample_pool(scope, focus, 19, ceil_mode=(0, 1), count_include_pad=(0, 1)),
        with_zero,
    ),
    _pool(
        "LpPool",
        replace(_OPENS, rounding=Rounding.INSIDE, terms=of_kernel),
        (F32, F16),
        _sample_lp_pool,
        _bound_lp,
    ),
    _global("GlobalAveragePool", SUMS, averaged_range),
    _global("GlobalMaxPool", WHOLE, same_range),
    _global("GlobalLpPool", SUMS_INSIDE, _bound_lp, choices(p=(1, 2)), 21),
    Operator("Pad", Kind.PAD, Arithmetic(Rounding.NOTHING, reads_axes=True), _PADDED, ranks=ALONG).by(
        _sample_pad, _infer_pad, _bound_pad, inverted(ALONG, _solve_pad)
    ),
)
