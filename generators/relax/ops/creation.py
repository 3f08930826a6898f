"""Tensors out of nothing or of a shape: constants, ranges, identities, windows, triangles, one-hot rows."""

from __future__ import annotations

import numpy as np

from generators.relax.operator import (
    BOOL,
    Asking,
    Call,
    Given,
    Likely,
    Literal,
    Operator,
    Tensor,
    Want,
    Within,
    number,
    shape_literal,
    size_of,
)


def _is_number(told: Tensor) -> bool:
    return told.dtype != BOOL


def _filled(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        return Call((shape_literal(target.shape),), target, ("InitAttrs", {"dtype": target.dtype}))

    return Operator(f"relax.{name}", lambda told: True, solve, Likely.ANYTHING, weight=0.5)


def _like(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        other = target.of(asking.float()) if asking.draws.chance(0.3) else target
        told = {"dtype": None if other == target and asking.draws.chance(0.5) else target.dtype}
        return Call((Want(other),), target, ("InitAttrs", told))

    return Operator(f"relax.{name}", lambda told: True, solve, Likely.ANYTHING, weight=0.5)


def _scalar(asking: Asking, dtype: str) -> Given:
    return Given(np.array(asking.draws.between(0, 5)).astype(dtype))


def _full(asking: Asking, target: Tensor) -> Call:
    args = shape_literal(target.shape), _scalar(asking, target.dtype)
    return Call(args, target, ("InitAttrs", {"dtype": target.dtype}))


def _full_like(asking: Asking, target: Tensor) -> Call:
    return Call((Want(target), _scalar(asking, target.dtype)), target, ("InitAttrs", {"dtype": None}))


def _arange(asking: Asking, target: Tensor) -> Call | None:
    (count,) = target.shape
    if not isinstance(count, int):
        args = number(0), Literal({"prim": ["int64", count]}), number(1)
        return Call(args, target, ("InitAttrs", {"dtype": target.dtype}))
    first, step = asking.amount((0, 1, 2, 3), 64), asking.amount((1, 1, 2, 3), 64)
    last = first + count * step - (asking.draws.below(step) if count else 0)
    args = number(first), number(last), number(step)
    return Call(args, target, ("InitAttrs", {"dtype": target.dtype}))


def _eye(asking: Asking, target: Tensor) -> Call:
    rows, columns = target.shape
    dims = (Literal({"prim": ["int64", dim]}) for dim in (rows, columns))
    args = (*dims, number(asking.amount((-1, 0, 1, 2), 8)))
    return Call(args, target, ("InitAttrs", {"dtype": target.dtype}))


def _eye_like(asking: Asking, target: Tensor) -> Call:
    return Call(
        (Want(target), number(asking.amount((-1, 0, 1, 2), 8))), target, ("InitAttrs", {"dtype": None})
    )


def _hamming(asking: Asking, target: Tensor) -> Call | None:
    (size,) = target.shape
    if not isinstance(size, int) or size < 2:
        return None
    periodic = Literal({"prim": ["bool", asking.draws.below(2)]})
    args = number(size), periodic, number(0.54, "float32"), number(0.46, "float32")
    return Call(args, target, ("InitAttrs", {"dtype": target.dtype}))


def _one_hot(asking: Asking, target: Tensor) -> Call | None:
    places = [at for at, dim in enumerate(target.shape) if isinstance(dim, int) and dim >= 1]
    if not places:
        return None
    axis = asking.draws.pick(places)
    depth = size_of(target.shape[axis], {})
    indices = Tensor(asking.draws.pick(["int32", "int64"]), (*target.shape[:axis], *target.shape[axis + 1 :]))
    on, off = asking.draws.pick([(1, 0), (3, 1)])
    told = {"depth": depth, "axis": axis - target.rank if axis == target.rank - 1 else axis}
    if target.is_float:
        values = number(float(on), target.dtype), number(float(off), target.dtype)
    else:
        values = number(on, target.dtype), number(off, target.dtype)
    return Call((Want(indices, Within(0, depth - 1)), *values), target, ("OneHotAttrs", told))


def _triangle(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        return Call((Want(target), number(asking.amount((-2, -1, 0, 1, 2), 8))), target)

    return Operator(f"relax.{name}", lambda told: told.rank >= 2, solve, Likely.NUMBER, ranks=(2, 4))


def _size(asking: Asking, target: Tensor) -> Call:
    return Call((Want(Tensor(asking.float(), asking.shape(0, 3))),), target)


def _shape_to_tensor(asking: Asking, target: Tensor) -> Call | None:
    (count,) = target.shape
    if not isinstance(count, int) or count > 6:
        return None
    return Call((shape_literal(tuple(asking.dim() for _ in range(count))),), target)


def _shape_i(asking: Asking, target: Tensor) -> Call:
    shape = asking.shape(1, 3)
    return Call((Want(Tensor("float32", shape)), number(asking.draws.below(len(shape)))), target)


def _is_int64(told: Tensor) -> bool:
    return told.dtype == "int64"


OPERATORS = (
    _filled("zeros"),
    _filled("ones"),
    _like("zeros_like"),
    _like("ones_like"),
    Operator("relax.full", _is_number, _full, Likely.NUMBER, weight=0.5),
    Operator("relax.full_like", _is_number, _full_like, Likely.NUMBER, weight=0.5),
    Operator(
        "relax.arange",
        lambda told: told.rank == 1 and told.dtype in ("int64", "int32", "float32"),
        _arange,
        Likely.NUMBER,
        ranks=(1, 1),
    ),
    Operator(
        "relax.eye", lambda told: told.rank == 2 and _is_number(told), _eye, Likely.NUMBER, ranks=(2, 2)
    ),
    Operator("relax.eye_like", lambda told: told.rank == 2 and _is_number(told), _eye_like, ranks=(2, 2)),
    Operator("relax.hamming_window", lambda told: told.rank == 1 and told.is_float, _hamming, ranks=(1, 1)),
    Operator(
        "relax.one_hot",
        lambda told: told.rank >= 1 and (told.is_float or told.dtype == "int64"),
        _one_hot,
        Likely.NUMBER,
        ranks=(1, 3),
    ),
    _triangle("tril"),
    _triangle("triu"),
    Operator(
        "relax.size", lambda told: _is_int64(told) and not told.rank, _size, Likely.INTEGER, (0, 0), 0.5
    ),
    Operator(
        "relax.shape_to_tensor",
        lambda told: _is_int64(told) and told.rank == 1,
        _shape_to_tensor,
        Likely.INTEGER,
        ranks=(1, 1),
        weight=0.5,
    ),
)
