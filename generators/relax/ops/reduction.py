"""Over axes: sums, extremes, moments, places of extremes."""

from __future__ import annotations

from generators.relax.operator import ANY, Asking, Call, Likely, Operator, Recogniser, Want, Within
from generators.relax.types import BOOL, Dim, Fields, Json, Tensor

_SMALL = Within(-2.0, 2.0)


def widened(asking: Asking, target: Tensor, most: int = 2) -> tuple[tuple[Dim, ...], list[int], bool]:
    """Choose an operand's shape and the axes whose reduction gives the target; also whether dims stay."""
    draws = asking.draws
    shape: tuple[Dim, ...]
    ones = [at for at, dim in enumerate(target.shape) if dim == 1]
    if ones and draws.chance(0.4):
        axes = sorted(draws.sample(ones, draws.between(1, min(most, len(ones)))))
        shape = tuple(asking.dim() if at in axes else dim for at, dim in enumerate(target.shape))
        return shape, axes, True
    dims: list[Dim] = list(target.shape)
    axes = []
    for _ in range(draws.between(1, min(most, max(1, asking.most_rank - target.rank)))):
        at = draws.below(len(dims) + 1)
        axes = [axis + (axis >= at) for axis in axes] + [at]
        dims.insert(at, asking.dim())
    return tuple(dims), sorted(axes), False


def _told(asking: Asking, axes: list[int], rank: int, keep: bool) -> dict[str, Json]:
    told: Json = [asking.axis(axis, rank) for axis in axes]
    if len(axes) == rank and asking.draws.chance(0.5):
        told = None
    return {"axis": told, "keepdims": keep}


def _reduce(name: str, recognise: Recogniser, within: Within = ANY) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        shape, axes, keep = widened(asking, target)
        told = _told(asking, axes, len(shape), keep)
        return Call((Want(Tensor(target.dtype, shape), within),), target, ("StatisticalAttrs", told))

    return Operator(f"relax.{name}", recognise, solve, Likely.NUMBER, ranks=(0, 3))


def _place(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        shape, (axis,), keep = widened(asking, target, most=1)
        whole = len(shape) == 1 and asking.draws.chance(0.3)
        told = {"axis": None if whole else asking.axis(axis, len(shape)), "keepdims": keep}
        dtype = asking.float() if asking.draws.chance(0.6) else asking.integer()
        return Call((Want(Tensor(dtype, shape)),), target, ("ArgmaxArgminAttrs", told))

    return Operator(f"relax.{name}", lambda told: told.dtype == "int64", solve, Likely.INTEGER, ranks=(0, 3))


def _median(asking: Asking, target: Tensor) -> Call:
    shape, (axis,), keep = widened(asking, target, most=1)
    told = {"axis": [asking.axis(axis, len(shape))], "keepdims": keep}
    result = Fields((target, target.of("int64")))
    return Call((Want(Tensor(target.dtype, shape)),), result, ("StatisticalAttrs", told), at=0)


def _is_float(told: Tensor) -> bool:
    return told.is_float


def _is_number(told: Tensor) -> bool:
    return told.dtype != BOOL


OPERATORS = (
    *(_reduce(name, _is_number) for name in ("max", "min")),
    *(_reduce(name, _is_number, _SMALL) for name in ("sum", "prod")),
    *(_reduce(name, _is_float) for name in ("mean", "std", "variance")),
    *(_place(name) for name in ("argmax", "argmin")),
    Operator("relax.median", _is_float, _median, ranks=(0, 3), weight=0.5),
)
