"""Products of tensors: matmul, outer, einsum, attention."""

from __future__ import annotations

from generators.relax.operator import ANY, Asking, Call, Group, Likely, Operator, Want, Within
from generators.relax.types import BOOL, Json, Tensor

_SMALL = Within(-4.0, 4.0)


def _is_number(told: Tensor) -> bool:
    return told.dtype != BOOL and not told.dtype.startswith("uint")


def _bounds(target: Tensor) -> Within:
    return ANY if target.is_float else _SMALL


def _matmul(asking: Asking, target: Tensor) -> Call:
    """Batches broadcast; of rank 1 an operand loses its dim."""
    draws, inner, within = asking.draws, asking.dim(), _bounds(target)
    if target.rank == 0:
        wants = (Want(Tensor(target.dtype, (inner,)), within),) * 2
        return Call(wants, target, ("MatmulAttrs", {"out_dtype": None}))
    if target.rank == 1 or draws.chance(0.1):
        matrix = Want(Tensor(target.dtype, (*target.shape, inner)), within)
        return Call(
            (matrix, Want(Tensor(target.dtype, (inner,)), within)),
            target,
            ("MatmulAttrs", {"out_dtype": None}),
        )
    *batch, rows, columns = target.shape
    left: list[Json] = [1 if draws.chance(0.2) else dim for dim in batch]
    right: list[Json] = [
        dim if mine == 1 and dim != 1 else (1 if draws.chance(0.2) else dim)
        for dim, mine in zip(batch, left, strict=True)
    ]
    if left == batch and draws.chance(0.4):
        right = []
    told: Json = target.dtype if draws.chance(0.2) else None
    args = (
        Want(Tensor(target.dtype, (*left, rows, inner)), within),
        Want(Tensor(target.dtype, (*right, inner, columns)), within),
    )
    return Call(args, target, ("MatmulAttrs", {"out_dtype": told}))


def _outer(asking: Asking, target: Tensor) -> Call:
    within = _bounds(target)
    wants = tuple(Want(Tensor(target.dtype, (dim,)), within) for dim in target.shape)
    return Call(wants, target)


def _einsum(asking: Asking, target: Tensor) -> Call:
    letters = "abcdef"[: target.rank]
    inner, within = asking.dim(), _bounds(target)
    cut = asking.draws.below(target.rank + 1)
    first, second = letters[:cut] + "z", "z" + letters[cut:]
    dims = dict(zip(letters, target.shape, strict=True)) | {"z": inner}
    told = {"subscripts": f"{first},{second}->{letters}"}
    wants = tuple(
        Want(Tensor(target.dtype, tuple(dims[each] for each in part)), within) for part in (first, second)
    )
    return Call((Group(wants),), target, ("EinsumAttrs", told))


def _attention(bias: bool) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        batch, rows, heads, size = target.shape
        columns, inner = asking.dim(), asking.dim()
        mask: Json = None if bias else asking.draws.pick([None, None, "TopLeft"])
        scale: Json = {"prim": ["float32", 0.5]} if asking.draws.chance(0.5) else None
        wants = [
            Want(Tensor(target.dtype, (batch, rows, heads, inner))),
            Want(Tensor(target.dtype, (batch, columns, heads, inner))),
            Want(Tensor(target.dtype, (batch, columns, heads, size))),
        ]
        if bias:
            wants.append(Want(Tensor(target.dtype, (batch, heads, rows, columns))))
        told = {"scale": scale, "causal_mask": mask, "window_size": None}
        return Call(tuple(wants), target, ("AttentionAttrs", told))

    def recognise(told: Tensor) -> bool:
        return told.rank == 4 and told.dtype == "float32" and told.is_static and 0 not in told.shape

    name = "relax.nn.attention_bias" if bias else "relax.nn.attention"
    return Operator(name, recognise, solve, ranks=(4, 4))


OPERATORS = (
    Operator("relax.matmul", _is_number, _matmul, Likely.NUMBER, ranks=(0, 4), weight=4.0),
    Operator(
        "relax.outer", lambda told: told.rank == 2 and _is_number(told), _outer, Likely.NUMBER, ranks=(2, 2)
    ),
    Operator("relax.einsum", lambda told: told.is_float and told.rank <= 5, _einsum, ranks=(0, 3)),
    _attention(False),
    _attention(True),
)
