"""Operators that sample an image at other places, or a signal by its frequencies."""

import numpy as np

from oracles.operators.conv import IMAGES
from oracles.relation.arithmetic import ROUNDS, SUMS_INSIDE, Arithmetic, Rounding, hull, of_window, symmetric
from oracles.relation.operator import Operator
from oracles.relation.program import (
    CUBE,
    IMAGE,
    MAX_ELEMENTS,
    MAX_RANK,
    Attribute,
    Call,
    Kind,
    Operand,
    Scope,
    fits,
    volume,
)
from oracles.relation.rules import inside, inverted, is_filled_image, with_more_dims
from oracles.relation.types import F32, F64, I8, I32, I64, U8, DType, Range, Shape, TensorType, replaced

_EXACT = ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")


def _sample_resize(scope: Scope, focus: Operand) -> Call | None:
    """Resize to given sizes or by given scales; the two outer dims stay, as in nearly every model."""
    draws = scope.draws
    attributes = _resize_attributes(scope, focus)
    sizes = (*focus.shape[:2], *(max(1, draws.pick((dim, 2 * dim, dim // 2))) for dim in focus.shape[2:]))
    if draws.chance(0.5):
        return Call((focus, None, None, scope.fix_ints(sizes)), attributes)
    scales = np.array([new / old for new, old in zip(sizes, focus.shape, strict=True)], dtype=np.float32)
    return Call((focus, None, scope.fix(scales, F32)), attributes) if _is_exact(scales) else None


def _resize_attributes(scope: Scope, focus: Operand) -> dict[str, Attribute]:
    draws = scope.draws
    mode = draws.pick(("nearest", "nearest", "linear", "cubic")) if focus.rank == 4 else "nearest"
    if focus.dtype is not F32:
        mode = "nearest"
    attributes: dict[str, Attribute] = {"mode": mode, "coordinate_transformation_mode": draws.pick(_EXACT)}
    if mode == "nearest":
        attributes["nearest_mode"] = draws.pick(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if mode == "cubic" and draws.chance(0.3):
        attributes |= {"cubic_coeff_a": draws.pick((-0.5, -0.75)), "exclude_outside": draws.below(2)}
    if mode != "nearest" and scope.opset >= 18 and draws.chance(0.2):
        attributes["antialias"] = 1
    return attributes


def _solve_resize(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """The outer two dims stay; each other dim came from half of it, from itself or from twice it."""
    dims = wanted.shape
    for axis in range(2, len(dims)):
        dim = scope.draws.pick((dims[axis], 2 * dims[axis], max(1, dims[axis] // 2)))
        changed = replaced(dims, axis, dim)
        dims = changed if volume(changed) <= MAX_ELEMENTS else dims
    focus = scope.supply(wanted.dtype, dims)
    return Call((focus, None, None, scope.fix_ints(wanted.shape)), _resize_attributes(scope, focus))


def _is_exact(scales: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> bool:
    """Whether no size depends on how its product is rounded."""
    return bool(np.isin(scales, (0.5, 1.0, 2.0)).all())


def _infer_resize(call: Call) -> tuple[TensorType, ...]:
    focus, sizes = call.operand(0), call.ints(3)
    if sizes is None:
        scales = call.operand(2).content
        assert scales is not None
        sizes = tuple(int(dim * scale) for dim, scale in zip(focus.shape, scales.tolist(), strict=True))
    return (TensorType(focus.dtype, sizes),)


def _bound_resize(call: Call) -> tuple[Range, ...]:
    """A cubic may overshoot."""
    focus = call.operand(0)
    if call.attributes["mode"] != "cubic":
        return (focus.range._replace(away=0.0),)
    return (symmetric(2.5 * focus.range.magnitude),)


def _sample_grid(scope: Scope, focus: Operand) -> Call:
    return _on_grid(scope, focus, max(1, scope.dim()), max(1, scope.dim()))


def _on_grid(scope: Scope, focus: Operand, height: int, width: int) -> Call:
    draws = scope.draws
    grid = scope.supply(F32, (focus.shape[0], height, width, 2), Range(-2, 2))
    linear, cubic = ("bilinear", "bicubic") if scope.opset < 20 else ("linear", "cubic")
    attributes: dict[str, Attribute] = {
        "mode": draws.pick((linear, "nearest", cubic)),
        "padding_mode": draws.pick(("zeros", "border", "reflection")),
        "align_corners": draws.below(2),
    }
    return Call((focus, grid), attributes)


def _solve_grid(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    batch, channels, height, width = wanted.shape
    dims = with_more_dims(scope, (batch, channels), 2)
    return _on_grid(scope, scope.supply(wanted.dtype, dims), height, width)


def _is_on_grid(shape: Shape) -> bool:
    """Every pixel has two coordinates."""
    return len(shape) == 4 and 2 * shape[0] * shape[2] * shape[3] <= MAX_ELEMENTS


def _infer_grid(call: Call) -> tuple[TensorType, ...]:
    image, grid = call.operand(0), call.operand(1)
    return (TensorType(image.dtype, image.shape[:2] + grid.shape[1:3]),)


def _bound_grid(call: Call) -> tuple[Range, ...]:
    return (symmetric(2.5 * hull((call.operand(0).range,)).magnitude),)


_RATE = 8000
_MELS = (F32, F64, I32, I64)


def _sample_frames(scope: Scope, focus: Operand) -> Call | None:
    """Frames of a real or complex signal, with a window or a length."""
    batch, length, parts = focus.shape
    if not batch or length < 2 or parts not in (1, 2):
        return None
    draws = scope.draws
    size = draws.between(2, min(length, 16))
    half = parts == 1 and draws.chance(0.6)
    return _frames(scope, focus, draws.between(1, 3), size, half)


def _frames(scope: Scope, focus: Operand, step: int, size: int, half: bool) -> Call:
    draws = scope.draws
    window = scope.supply(focus.dtype, (size,)) if draws.chance(0.5) else None
    length = None if window is not None and draws.chance(0.5) else scope.fix_scalar(size, I64)
    operands = (focus, scope.fix_scalar(step, I64), window, length)
    return Call(operands[:3] if length is None else operands, {"onesided": int(half)})


def _frame_size(call: Call) -> int:
    window = call.optional(2)
    return window.shape[0] if window is not None else (call.ints(3) or (1,))[0]


def _infer_frames(call: Call) -> tuple[TensorType, ...]:
    focus, (step,) = call.operand(0), call.ints(1) or (1,)
    size = _frame_size(call)
    bins = size // 2 + 1 if call.integer("onesided", 1) else size
    frames = (focus.shape[1] - size) // step + 1
    return (TensorType(focus.dtype, (focus.shape[0], frames, bins, 2)),)


def _bound_frames(call: Call) -> tuple[Range, ...]:
    window = call.optional(2)
    gain = window.range.magnitude if window is not None else 1.0
    return (symmetric(2 * _frame_size(call) * call.operand(0).range.magnitude * gain),)


def _is_of_frames(shape: Shape) -> bool:
    if not is_filled_image(shape):
        return False
    batch, frames, bins, parts = shape
    return parts == 2 and bins >= 2 and fits((batch, frames - 1 + bins, 2))


def _solve_frames(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    """Every bin is kept, one step apart."""
    batch, frames, bins, _ = wanted.shape
    focus = scope.supply(wanted.dtype, (batch, frames - 1 + bins, scope.draws.between(1, 2)))
    return _frames(scope, focus, 1, bins, False)


def _sample_mel(scope: Scope, focus: Operand) -> Call | None:
    """Make a mel matrix with as many bands as the known focus says."""
    if focus.content is None or not 1 <= int(focus.content) <= 16:
        return None
    return _mel(scope, focus, scope.draws.pick((8, 15, 16, 32)), scope.draws.pick(_MELS))


def _mel(scope: Scope, bands: Operand, length: int, dtype: DType) -> Call:
    numbers = tuple(scope.fix_scalar(number, bands.dtype) for number in (length, _RATE))
    edges = tuple(scope.fix_scalar(edge, F32) for edge in (0.0, 0.45 * _RATE))
    attributes: dict[str, Attribute] = {} if dtype is F32 else {"output_datatype": int(dtype)}
    return Call((bands, *numbers, *edges), attributes)


def _infer_mel(call: Call) -> tuple[TensorType, ...]:
    (bands,), (length,) = call.ints(0) or (1,), call.ints(1) or (1,)
    return (TensorType(DType(call.integer("output_datatype", F32)), (length // 2 + 1, bands)),)


def _is_mel(shape: Shape) -> bool:
    return len(shape) == 2 and 2 <= shape[0] <= 65 and 1 <= shape[1] <= 16


def _solve_mel(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    rows, bands = wanted.shape
    length = 2 * (rows - 1) + scope.draws.below(2)
    count = scope.fix_scalar(bands, scope.draws.pick((I64, I32)))
    return _mel(scope, count, length, wanted.dtype)


_RESIZES = Arithmetic(Rounding.INSIDE, terms=of_window, dims_at=(3,))
_RESIZED, _ON_GRID = inverted(range(3, 5), _solve_resize), inverted(_is_on_grid, _solve_grid)
_FRAMES, _MEL = inverted(_is_of_frames, _solve_frames), inverted(_is_mel, _solve_mel, *_MELS)


def _sample_dft(scope: Scope, focus: Operand) -> Call | None:
    """Real or complex signals, along one of the axes between the batch and the parts."""
    if focus.shape[-1] not in (1, 2):
        return None
    axis = scope.draws.between(1, focus.rank - 2)
    return _dft(scope, focus, axis, focus.shape[-1] == 2 and scope.draws.chance(0.4))


def _dft(scope: Scope, focus: Operand, axis: int, inverse: bool) -> Call:
    attributes: dict[str, Attribute] = {"inverse": 1} if inverse else {}
    if scope.opset >= 20:
        return Call((focus, None, scope.fix_scalar(axis, I64)), attributes)
    return Call((focus,), {**attributes, "axis": axis})


def _infer_dft(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return (TensorType(focus.dtype, (*focus.shape[:-1], 2)),)


def _bound_dft(call: Call) -> tuple[Range, ...]:
    return (symmetric(2 * max(call.operand(0).shape) * call.operand(0).range.magnitude),)


def _solve_dft(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    source = (*wanted.shape[:-1], scope.draws.between(1, 2))
    axis = scope.draws.between(1, len(source) - 2)
    return _dft(scope, scope.supply(wanted.dtype, source), axis, False)


def _is_transformed(shape: Shape) -> bool:
    return 3 <= len(shape) <= MAX_RANK and shape[-1] == 2


OPERATORS = (
    Operator("Resize", Kind.RESAMPLE, _RESIZES, (F32, U8, I8, I32), ranks=range(3, 5), filled=True).by(
        _sample_resize, _infer_resize, _bound_resize, _RESIZED
    ),
    Operator(
        "GridSample",
        Kind.RESAMPLE,
        Arithmetic(Rounding.INSIDE, terms=of_window),
        (F32,),
        ranks=IMAGE,
        filled=True,
        since=16,
    ).by(_sample_grid, _infer_grid, _bound_grid, _ON_GRID),
    Operator("STFT", Kind.LINEAR, SUMS_INSIDE, (F32, F64), ranks=CUBE, since=17).by(
        _sample_frames, _infer_frames, _bound_frames, _FRAMES
    ),
    Operator(
        "MelWeightMatrix", Kind.PART, ROUNDS, (I64, I32), ranks=range(1), domain=Range(1, 16), since=17
    ).by(_sample_mel, _infer_mel, inside(0, 1.1), _MEL),
    Operator("DFT", Kind.MATH, SUMS_INSIDE, (F32, F64), ranks=IMAGES, filled=True, since=17).by(
        _sample_dft, _infer_dft, _bound_dft, inverted(_is_transformed, _solve_dft)
    ),
)
