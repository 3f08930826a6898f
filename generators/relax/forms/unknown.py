"""A size that only the run tells, a cast that gives it a name, and a way back to known sizes."""

from __future__ import annotations

import numpy as np

from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Within
from generators.relax.types import Json, Tensor, type_to_json
from generators.relax.watched import Unsound

NAME = "unknown"


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Spread the elements of a row of unknown length over the target's shape and reduce them to it."""
    if target.rank > 3 or target.dtype in ("bool", "float16", "uint8", "int8"):
        return None
    row = growth.draws.pick((_nonzero, _nonzero, _unique, _sliced))(growth, frame, fuel)
    return reduced(growth, frame, row, target)


def _nonzero(growth: Growth, frame: Frame, fuel: int) -> Known:
    """Return the first row of the places of what is not zero."""
    rank = growth.draws.between(1, 2)
    source = growth.grow(frame, Tensor("float32", growth.asking(frame).shape(rank, rank)), ANY, fuel // 2)
    found = _cast(growth, frame, "relax.nonzero", [{"ref": source.name}], "int64", rank)
    zero = growth.constant(np.array(0, "int64"))
    told = {"attributes": ["TakeAttrs", {"axis": 0, "mode": "clip"}]}
    return growth.bind(frame, "relax.take", [{"ref": found.name}, {"ref": zero.name}], _row(found), told)


def _unique(growth: Growth, frame: Frame, fuel: int) -> Known:
    """Return the different elements of a tensor of integers."""
    dtype = growth.draws.pick(["int64", "int32"])
    source = growth.grow(frame, Tensor(dtype, growth.asking(frame).shape(1, 2)), ANY, fuel // 2)
    flags = [{"prim": ["bool", is_set]} for is_set in (1, 0, 0, 0)]
    return _cast(growth, frame, "relax.unique", [{"ref": source.name}, *flags], dtype)


def _sliced(growth: Growth, frame: Frame, fuel: int) -> Known:
    """Return a part of a vector whose ends are tensors."""
    draws, asking = growth.draws, growth.asking(frame)
    size = max(asking.static(), 2)
    source = growth.grow(frame, Tensor(asking.float(), (size,)), ANY, fuel // 2)
    first = draws.below(size)
    ends = first, draws.between(first + 1, size), draws.pick([1, 1, 2])
    refs = [{"ref": growth.constant(np.array([each], "int64")).name} for each in ends]
    assert isinstance(source.type, Tensor)
    args = [{"ref": source.name}, *refs]
    return _cast(growth, frame, "relax.dynamic_strided_slice", args, source.type.dtype)


def _cast(growth: Growth, frame: Frame, op: str, args: list[Json], dtype: str, rows: int = 0) -> Known:
    """Bind a call of a result of unknown length, and a cast that names this; Unsound if it is empty."""
    name, symbol = growth.fresh(), growth.fresh("k")
    value = growth.put(frame, name, op, args)
    if not value.size:
        raise Unsound("nothing is left")
    frame.symbols.append(symbol)
    frame.sizes[symbol] = value.shape[-1]
    told = Tensor(dtype, (rows, symbol) if rows else (symbol,))
    inner = Frame(known=[Known(name, told, value)], outer=frame)
    cast = growth.bind(inner, "match_cast", [{"ref": name}, type_to_json(told)], told)
    frame.bindings += inner.bindings
    frame.known.append(cast)
    return cast


def _row(found: Known) -> Tensor:
    assert isinstance(found.type, Tensor)
    return Tensor(found.type.dtype, found.type.shape[-1:])


def reduced(growth: Growth, frame: Frame, row: Known, target: Tensor) -> Known:
    """Return the row, of the target's dtype, beside each of the target's elements; its largest."""
    told = _row(row)
    if told.dtype != target.dtype:
        as_target = {"attributes": ["AstypeAttrs", {"dtype": target.dtype}]}
        told = told.of(target.dtype)
        row = growth.bind(frame, "relax.astype", [{"ref": row.name}], told, as_target)
    wide = Tensor(target.dtype, (*target.shape, *told.shape))
    spread = growth.bind(frame, "relax.broadcast_to", [{"ref": row.name}, {"shape": list(wide.shape)}], wide)
    over = {"attributes": ["StatisticalAttrs", {"axis": [target.rank], "keepdims": False}]}
    name = growth.draws.pick(["relax.max", "relax.min"])
    return growth.bind(frame, name, [{"ref": spread.name}], target, over)
