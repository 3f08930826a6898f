"""A size that only the run tells: nonzero, a cast that gives it a name, and a way back to known sizes."""

from __future__ import annotations

import numpy as np

from generators.relax.frame import Frame, Known
from generators.relax.growing import Growth
from generators.relax.operator import ANY, Within
from generators.relax.types import Tensor, type_to_json
from generators.relax.watched import Unsound

NAME = "unknown"


def grow(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Spread the indices of a nonzero call over the target's shape and reduce them to it."""
    if target.rank > 3 or target.dtype in ("bool", "float16", "uint8", "int8"):
        return None
    rank = growth.draws.between(1, 2)
    source = growth.grow(frame, Tensor("float32", growth.asking(frame).shape(rank, rank)), ANY, fuel // 2)
    places = np.array(np.nonzero(source.value), np.int64).reshape(rank, -1)
    if not places.shape[1]:
        raise Unsound("nothing is not zero")
    symbol, name = growth.fresh("k"), growth.fresh()
    frame.bindings.append([name, "relax.nonzero", [{"ref": source.name}], {}])
    found = Known(name, Tensor("int64", (rank, symbol)), places)
    frame.symbols.append(symbol)
    frame.sizes[symbol] = places.shape[1]
    inner = Frame(known=[found], outer=frame)
    cast = growth.bind(inner, "match_cast", [{"ref": name}, type_to_json(found.type)], found.type)
    frame.bindings += inner.bindings
    frame.known.append(cast)
    return reduced(growth, frame, cast, symbol, target)


def reduced(growth: Growth, frame: Frame, cast: Known, symbol: str, target: Tensor) -> Known:
    """Return the first row, of the target's dtype, beside each of the target's elements; its largest."""
    zero = growth.constant(np.array(0, "int64"))
    told = {"attributes": ["TakeAttrs", {"axis": 0, "mode": "clip"}]}
    row = growth.bind(
        frame, "relax.take", [{"ref": cast.name}, {"ref": zero.name}], Tensor("int64", (symbol,)), told
    )
    as_target = {"attributes": ["AstypeAttrs", {"dtype": target.dtype}]}
    row = growth.bind(frame, "relax.astype", [{"ref": row.name}], Tensor(target.dtype, (symbol,)), as_target)
    wide = Tensor(target.dtype, (*target.shape, symbol))
    spread = growth.bind(frame, "relax.broadcast_to", [{"ref": row.name}, {"shape": list(wide.shape)}], wide)
    over = {"attributes": ["StatisticalAttrs", {"axis": [target.rank], "keepdims": False}]}
    name = growth.draws.pick(["relax.max", "relax.min"])
    return growth.bind(frame, name, [{"ref": spread.name}], target, over)
