"""Along an axis: sorts, the largest few, running sums."""

from __future__ import annotations

from generators.relax.operator import Asking, Call, Likely, Operator, Want, Within
from generators.relax.types import BOOL, Dim, Fields, Tensor

_SMALL = Within(-2.0, 2.0)


def _takes(told: Tensor) -> bool:
    return told.rank >= 1 and told.dtype in ("float32", "float64", "int32", "int64")


def _sort(asking: Asking, target: Tensor) -> Call:
    told = {
        "axis": asking.axis(asking.draws.below(target.rank), target.rank),
        "descending": asking.draws.chance(0.5),
    }
    return Call((Want(target),), target, ("SortAttrs", told))


def _argsort(asking: Asking, target: Tensor) -> Call:
    told = {
        "axis": asking.axis(asking.draws.below(target.rank), target.rank),
        "descending": asking.draws.chance(0.5),
        "dtype": target.dtype,
    }
    return Call((Want(target.of("float32")),), target, ("ArgsortAttrs", told))


def _topk(asking: Asking, target: Tensor) -> Call | None:
    places = [at for at, dim in enumerate(target.shape) if isinstance(dim, int) and dim >= 1]
    if not places:
        return None
    axis = asking.draws.pick(places)
    count = target.shape[axis]
    assert isinstance(count, int)
    shape: tuple[Dim, ...] = (
        *target.shape[:axis],
        count + asking.amount((0, 1, 2, 3), 32),
        *target.shape[axis + 1 :],
    )
    kind = asking.draws.pick(["both", "values"])
    told = {
        "k": count,
        "axis": asking.axis(axis, target.rank),
        "ret_type": kind,
        "largest": asking.draws.chance(0.5),
        "dtype": asking.draws.pick(["int32", "int64"]),
    }
    both = Fields((target, target.of(str(told["dtype"]))))
    is_both = kind == "both"
    return Call(
        (Want(Tensor(target.dtype, shape)),),
        both if is_both else target,
        ("TopKAttrs", told),
        at=0 if is_both else None,
    )


def _scan(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        told = {
            "axis": asking.axis(asking.draws.below(target.rank), target.rank),
            "dtype": None if asking.draws.chance(0.5) else target.dtype,
            "exclusive": asking.draws.chance(0.3),
        }
        if target.rank == 1 and asking.draws.chance(0.3):
            told["axis"] = None
        return Call((Want(target, _SMALL),), target, ("ScanopAttrs", told))

    def recognise(told: Tensor) -> bool:
        return told.rank >= 1 and told.dtype not in (BOOL, "float16")

    return Operator(f"relax.{name}", recognise, solve, Likely.NUMBER, ranks=(1, 3))


OPERATORS = (
    Operator("relax.sort", _takes, _sort, Likely.NUMBER, ranks=(1, 3), weight=0.6),
    Operator(
        "relax.argsort",
        lambda told: told.rank >= 1 and told.dtype in ("int32", "int64"),
        _argsort,
        Likely.INTEGER,
        ranks=(1, 3),
        weight=0.6,
    ),
    Operator("relax.topk", _takes, _topk, Likely.NUMBER, ranks=(1, 3), weight=0.6),
    _scan("cumsum"),
    _scan("cumprod"),
)
