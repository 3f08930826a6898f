"""Operators that sample an image at other places."""

from __future__ import annotations

import numpy as np

from oracles.relation.arithmetic import Arithmetic, Rounding
from oracles.relation.intervals import hull, symmetric
from oracles.relation.inverses import another_dim, is_filled, recogniser, volume
from oracles.relation.operator import Inverse, Operator
from oracles.relation.program import Attribute, Call, Kind, Operand
from oracles.relation.scope import MAX_ELEMENTS, Scope
from oracles.relation.term_counts import of_window
from oracles.relation.types import F32, I8, I32, U8, Range, Shape, TensorType

_EXACT = ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")


def _sample_resize(scope: Scope, focus: Operand) -> Call | None:
    """Resize to given sizes or by given scales; the two outer dims stay, as in nearly every model."""
    draws = scope.draws
    if 0 in focus.shape:
        return None
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
        changed = (*dims[:axis], dim, *dims[axis + 1 :])
        dims = changed if volume(changed) <= MAX_ELEMENTS else dims
    focus = scope.supply(wanted.dtype, dims)
    return Call((focus, None, None, scope.fix_ints(wanted.shape)), _resize_attributes(scope, focus))


def _is_resized(shape: Shape) -> bool:
    return len(shape) in (3, 4) and is_filled(shape)


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


def _sample_grid(scope: Scope, focus: Operand) -> Call | None:
    if 0 in focus.shape:
        return None
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
    dims: Shape = (batch, channels)
    for _ in range(2):
        dims = (*dims, another_dim(scope, dims))
    return _on_grid(scope, scope.supply(wanted.dtype, dims), height, width)


def _is_on_grid(shape: Shape) -> bool:
    """Every pixel has two coordinates."""
    return len(shape) == 4 and is_filled(shape) and 2 * shape[0] * shape[2] * shape[3] <= MAX_ELEMENTS


def _infer_grid(call: Call) -> tuple[TensorType, ...]:
    image, grid = call.operand(0), call.operand(1)
    return (TensorType(image.dtype, image.shape[:2] + grid.shape[1:3]),)


def _bound_grid(call: Call) -> tuple[Range, ...]:
    return (symmetric(2.5 * hull((call.operand(0).range,)).magnitude),)


_IMAGE = range(4, 5)

OPERATORS = (
    Operator(
        "Resize",
        Kind.RESAMPLE,
        Arithmetic(Rounding.INSIDE, terms=of_window, dims_at=(3,)),
        (F32, U8, I8, I32),
        _sample_resize,
        _infer_resize,
        _bound_resize,
        range(3, 5),
        inverse=Inverse(recogniser(_is_resized), _solve_resize),
    ),
    Operator(
        "GridSample",
        Kind.RESAMPLE,
        Arithmetic(Rounding.INSIDE, terms=of_window),
        (F32,),
        _sample_grid,
        _infer_grid,
        _bound_grid,
        _IMAGE,
        since=16,
        inverse=Inverse(recogniser(_is_on_grid), _solve_grid),
    ),
)
