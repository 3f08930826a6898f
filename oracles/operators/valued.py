"""Operators whose results follow from values that are known or not zero: shapes, crops, paths, inverses."""

import math

import numpy as np

from corpus.values import Tensor
from oracles.relation.arithmetic import (
    ROUNDS,
    SUMS_INSIDE,
    WHOLE,
    Arithmetic,
    Rounding,
    hull,
    of_window,
    rounded,
    symmetric,
)
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import (
    ALONG,
    FLAT,
    IMAGE,
    MAX_ELEMENTS,
    MAX_RANK,
    RANKS,
    VECTOR,
    Attribute,
    Call,
    DoesNotFit,
    Kind,
    Operand,
    Scope,
    fits,
)
from oracles.relation.rules import another_dim, inside, inverted
from oracles.relation.types import (
    BOOL,
    F32,
    F64,
    I8,
    I32,
    I64,
    NUMPY,
    U8,
    DType,
    Range,
    Shape,
    TensorType,
    dtype_of,
    is_filled,
)

_AWAY = Range(-math.inf, math.inf, 0.01)


def _sample_nonzero(scope: Scope, focus: Operand) -> Call | None:
    """Find nonzeros among values that are all away from zero, or all known."""
    known = focus.content is not None and focus.is_constant
    return Call((focus,)) if known or focus.range.is_within(_AWAY) else None


def _infer_nonzero(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    count = math.prod(focus.shape) if focus.content is None else int(np.count_nonzero(focus.content))
    return (TensorType(I64, (focus.rank, count)),)


def _bound_nonzero(call: Call) -> tuple[Range, ...]:
    return (Range(0, max(call.operand(0).shape, default=1)),)


def _solve_nonzero(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """Ones along an axis, as many as are wanted."""
    rank, count = wanted.shape
    dims = [1] * rank
    dims[scope.draws.below(rank)] = count
    return Call((scope.fix(np.ones(dims, dtype=np.float32), F32),))


def _is_nonzero(shape: Shape) -> bool:
    return len(shape) == 2 and 1 <= shape[0] <= MAX_RANK


def _sample_constant(scope: Scope, focus: Operand) -> Call | None:
    """A tensor of one value; its shape is the known content of the focus."""
    shape = _known(focus)
    if shape is None or len(shape) > MAX_RANK or not all(0 <= dim <= MAX_ELEMENTS for dim in shape):
        return None
    return Call((focus,), _value(scope, scope.draws.pick((F32, F32, F64, I64, I32, BOOL, U8))))


def _value(scope: Scope, dtype: DType) -> dict[str, Attribute]:
    """Left out, it is zero as a float of 32 bits."""
    if dtype is F32 and scope.draws.chance(0.3):
        return {}
    return {"value": np.array([scope.draws.pick((0, 1, 1, 3))], dtype=NUMPY[dtype])}


def _known(focus: Operand) -> tuple[int, ...] | None:
    if focus.content is None:
        return None
    return tuple(int(item) for item in focus.content.reshape(-1).tolist())


def _filling(call: Call) -> Tensor:
    value = call.attributes.get("value")
    return value if isinstance(value, np.ndarray) else np.zeros(1, dtype=np.float32)


def _infer_constant(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(dtype_of(_filling(call)), call.ints(0) or ()),)


def _bound_constant(call: Call) -> tuple[Range, ...]:
    value = float(_filling(call)[0])
    return (Range(value, value),)


def _solve_constant(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    return Call((scope.fix_ints(wanted.shape),), _value(scope, wanted.dtype))


def sample_range(scope: Scope, focus: Operand) -> Call | None:
    """Make a range from 0 to the known focus, in positive or negative steps."""
    known = _known(focus)
    if known is None or not 0 <= known[0] <= 64:
        return None
    start, step = scope.draws.pick(((0, 1), (0, 2), (1, 1), (-2, 3)))
    return Call((scope.fix_scalar(start, focus.dtype), focus, scope.fix_scalar(step, focus.dtype)))


def infer_range(call: Call) -> tuple[TensorType, ...]:
    """Infer a range's type: one element for each step from start to limit."""
    (start,), (limit,), (step,) = (call.ints(index) or (0,) for index in range(3))
    return (TensorType(call.operand(1).dtype, (max(0, -(-(limit - start) // step)),)),)


def bound_range(call: Call) -> tuple[Range, ...]:
    """Bound a range by the least start and the greatest limit."""
    start, limit = call.operand(0).range, call.operand(1).range
    return (Range(start.low, max(limit.high, start.low)),)


def _solve_range(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """Make a range from 0 in steps of 1."""
    numbers = (0, wanted.shape[0], 1)
    return Call(tuple(scope.fix_scalar(number, wanted.dtype) for number in numbers))


_WINDOWED = (F32, F64)


def _sample_window(scope: Scope, focus: Operand) -> Call | None:
    known = _known(focus)
    if known is None or not 2 <= known[0] <= 64:
        return None
    return Call((focus,), _window(scope, scope.draws.pick(_WINDOWED)))


def _window(scope: Scope, dtype: DType) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {"periodic": scope.draws.below(2)} if scope.draws.chance(0.5) else {}
    return {**attributes, "output_datatype": int(dtype)}


def _infer_window(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(DType(call.integer("output_datatype", 1)), call.ints(0) or (0,)),)


def _solve_window(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    size = scope.fix_scalar(wanted.shape[0], scope.draws.pick((I32, I64)))
    return Call((size,), _window(scope, wanted.dtype))


def _sample_unique(scope: Scope, focus: Operand) -> Call | None:
    """Along an axis of one, or of a known tensor."""
    if focus.content is not None and focus.is_constant:
        return Call((focus,), _order(scope))
    ones = [axis for axis, dim in enumerate(focus.shape) if dim == 1]
    if not ones or 0 in focus.shape:
        return None
    return Call((focus,), {**_order(scope), "axis": scope.draws.pick(ones)})


def _order(scope: Scope) -> dict[str, Attribute]:
    return {"sorted": scope.draws.below(2)} if scope.draws.chance(0.5) else {}


def _infer_unique(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    if "axis" in call.attributes:
        return (focus.type,)
    if focus.content is None:
        raise DoesNotFit("values")
    return (TensorType(focus.dtype, (len(set(focus.content.reshape(-1).tolist())),)),)


def _recognise_unique(operator: Operator, wanted: TensorType, opset: int) -> bool:
    shape = wanted.shape
    along = bool(shape) and is_filled(shape) and 1 in shape
    return wanted.dtype in operator.dtypes and (along or len(shape) == 1)


def _solve_unique(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    if is_filled(shape) and 1 in shape:
        return Call((scope.supply(*wanted),), {**_order(scope), "axis": shape.index(1)})
    numbers = np.arange(shape[0]).astype(NUMPY[wanted.dtype])
    return Call((scope.fix(numbers, wanted.dtype),), _order(scope))


def _is_window(shape: Shape) -> bool:
    return len(shape) == 1 and 2 <= shape[0] <= 64


_CONSTANTS = (F32, F64, I64, I32, BOOL, U8)
_NONZERO, _UNIQUE = inverted(_is_nonzero, _solve_nonzero, I64), Inverse(_recognise_unique, _solve_unique)
_CONSTANT = inverted(RANKS, _solve_constant, *_CONSTANTS)
RANGE = inverted(VECTOR, _solve_range)
_WINDOW = inverted(_is_window, _solve_window, *_WINDOWED)


def _windowed(name: str) -> Operator:
    return Operator(name, Kind.PART, ROUNDS, (I64, I32), ranks=range(1), domain=Range(2, 64), since=17).by(
        _sample_window, _infer_window, inside(-0.1, 1.1), _WINDOW
    )


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


def _sample_set(scope: Scope, focus: Operand) -> Call | None:
    return Call((focus,), {}, 3) if focus.content is not None and focus.is_constant else None


def _infer_set(call: Call) -> tuple[TensorType, ...]:
    known, focus = call.operand(0).content, call.operand(0)
    assert known is not None
    count = len(set(known.tolist()))
    return TensorType(F32, (count,)), TensorType(I64, focus.shape), TensorType(I64, (count,))


def _bound_set(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    size = float(focus.shape[0])
    return focus.range, Range(0, size), Range(0, size)


def _solve_set(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    (count,) = wanted.shape
    places = [*range(count), *(scope.draws.below(count) for _ in range(min(count, 5)))]
    return Call((scope.constant(np.array(places, np.float32), F32),), {}, 3)


OPERATORS = (
    Operator("NonZero", Kind.PART, WHOLE, (F32, I32, I64, U8, BOOL), ranks=ALONG).by(
        _sample_nonzero, _infer_nonzero, _bound_nonzero, _NONZERO
    ),
    Operator(
        "ConstantOfShape",
        Kind.PART,
        Arithmetic(Rounding.NOTHING, dims_at=(0,)),
        (I64,),
        ranks=VECTOR,
        domain=Range(0, 17),
    ).by(_sample_constant, _infer_constant, _bound_constant, _CONSTANT),
    Operator("Range", Kind.PART, WHOLE, (I64, I32), ranks=range(1), domain=Range(0, 64)).by(
        sample_range, infer_range, bound_range, RANGE
    ),
    *map(_windowed, ("HannWindow", "HammingWindow", "BlackmanWindow")),
    Operator("Unique", Kind.PART, WHOLE, (F32, F64, I64, I8), ranks=ALONG).by(
        _sample_unique, _infer_unique, inverse=_UNIQUE
    ),
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
        _sample_set, _infer_set, _bound_set, inverted(VECTOR, _solve_set)
    ),
)
