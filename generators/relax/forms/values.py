"""Forms that name, cast or take apart values: aliases, casts, tuples, shapes, sizes of the run."""

import numpy as np

from generators.relax.choices import any_tensor
from generators.relax.leaves import Form, Growth, fitting
from generators.relax.making import Frame, Known
from generators.relax.operator import ANY, Fields, Json, Sizes, Tensor, Type, Within, type_to_json
from generators.relax.watched import Unsound


def grow_alias(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Bind a second name to a value of the target type."""
    found = growth.grow(frame, target, within, fuel - 1)
    return growth.bind(frame, "alias", [{"ref": found.name}], target)


def grow_cast(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Bind a match_cast of a value of the target type."""
    found = growth.grow(frame, target, within, fuel - 1)
    return growth.bind(frame, "match_cast", [{"ref": found.name}, type_to_json(target)], target)


def grow_loose(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """The dims, the rank, the dtype too, or all of it is left open for a while."""
    found = growth.grow(frame, target, within, fuel - 1)
    forms: list[Json] = [
        {"tensor": [target.dtype, None, target.rank]},
        {"tensor": [target.dtype, None, -1]},
        {"tensor": [None, None, -1]},
        {"any": True},
    ]
    name = growth.fresh()
    growth.place(name, "alias", [{"ref": found.name}])
    frame.bindings.append([name, "alias", [{"ref": found.name}], {"type": growth.draws.pick(forms)}])
    told = type_to_json(target)
    loose = Known(name, target, found.value)
    with_loose = Frame(known=[loose], outer=frame)
    made = growth.bind(with_loose, "match_cast", [{"ref": name}, told], target)
    frame.bindings += with_loose.bindings
    frame.known.append(made)
    return made


def grow_pair(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """The target among other fields."""
    others = [any_tensor(growth.asking(frame)) for _ in range(growth.draws.between(0, 2))]
    at = growth.draws.below(len(others) + 1)
    types: list[Type] = [*others[:at], target, *others[at:]]
    parts = [growth.grow(frame, each, ANY, max(0, fuel - 1) // len(types)) for each in types]
    refs = [{"ref": each.name} for each in parts]
    told: Type = Fields(tuple(types))
    if growth.draws.chance(0.25):
        inner = growth.bind(frame, "alias", [{"tuple": refs}], told)
        outer = Fields((told, target))
        whole = growth.bind(frame, "alias", [{"tuple": [{"ref": inner.name}, refs[at]]}], outer)
        inner = growth.bind(frame, "getitem", [{"ref": whole.name}, 0], told)
        return growth.bind(frame, "getitem", [{"ref": inner.name}, at], target)
    whole = growth.bind(frame, "alias", [{"tuple": refs}], told)
    return growth.bind(frame, "getitem", [{"ref": whole.name}, at], target)


def grow_variable(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """One that keeps the bounds, else one that is guarded."""
    found = fitting(frame, target, within) or fitting(frame, target, ANY)
    return growth.draws.pick(found) if found else None


_READ_OFF = 0.5


def grow_shape(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """A reshape, a broadcast, or a filled tensor."""
    shape = _shape(growth, frame, target, fuel)
    ref = {"ref": shape.name}
    way = growth.draws.below(3)
    if way == 0 and target.rank:
        order = tuple(growth.draws.sample(target.shape, target.rank))
        source = growth.grow(frame, Tensor(target.dtype, order), ANY, fuel // 2)
        return growth.bind(frame, "relax.reshape", [{"ref": source.name}, ref], target)
    if way == 1 and target.rank:
        narrow = tuple(1 if growth.draws.chance(0.4) else dim for dim in target.shape)
        source = growth.grow(frame, Tensor(target.dtype, narrow), ANY, fuel // 2)
        return growth.bind(frame, "relax.broadcast_to", [{"ref": source.name}, ref], target)
    told = {"attributes": ["InitAttrs", {"dtype": target.dtype}]}
    return growth.bind(frame, growth.draws.pick(["relax.zeros", "relax.ones"]), [ref], target, told)


def _shape(growth: Growth, frame: Frame, target: Tensor, fuel: int) -> Known:
    told = Sizes(target.shape)
    if not growth.draws.chance(_READ_OFF):
        return growth.bind(frame, "alias", [{"shape": list(target.shape)}], told)
    likes = [
        each for each in frame.readable() if isinstance(each.type, Tensor) and each.type.shape == target.shape
    ]
    like = growth.draws.pick(likes) if likes else growth.grow(frame, target.of("float32"), ANY, fuel // 3)
    return growth.bind(frame, "relax.shape_of", [{"ref": like.name}], told)


def grow_unknown(growth: Growth, frame: Frame, target: Tensor, within: Within, fuel: int) -> Known | None:
    """Spread the elements of a row of unknown length over the target's shape and reduce them to it."""
    if target.rank > 3 or target.dtype in ("bool", "float16", "uint8", "int8"):
        return None
    row = growth.draws.pick((_nonzero, _nonzero, _unique, _sliced))(growth, frame, fuel)
    return reduced(growth, frame, row, target)


def _nonzero(growth: Growth, frame: Frame, fuel: int) -> Known:
    """The first row of the places of what is not zero."""
    rank = growth.draws.between(1, 2)
    source = growth.grow(frame, Tensor("float32", growth.asking(frame).shape(rank, rank)), ANY, fuel // 2)
    found = _cast(growth, frame, "relax.nonzero", [{"ref": source.name}], "int64", rank)
    zero = growth.constant(np.array(0, "int64"))
    told = {"attributes": ["TakeAttrs", {"axis": 0, "mode": "clip"}]}
    return growth.bind(frame, "relax.take", [{"ref": found.name}, {"ref": zero.name}], _row(found), told)


def _unique(growth: Growth, frame: Frame, fuel: int) -> Known:
    """The different elements of a tensor of integers."""
    dtype = growth.draws.pick(["int64", "int32"])
    source = growth.grow(frame, Tensor(dtype, growth.asking(frame).shape(1, 2)), ANY, fuel // 2)
    flags = [{"prim": ["bool", is_set]} for is_set in (1, 0, 0, 0)]
    return _cast(growth, frame, "relax.unique", [{"ref": source.name}, *flags], dtype)


def _sliced(growth: Growth, frame: Frame, fuel: int) -> Known:
    """A part of a vector whose ends are tensors."""
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
    """The row, of the target's dtype, beside each of the target's elements; its largest."""
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


FORMS: dict[str, Form] = {
    "alias": grow_alias,
    "cast": grow_cast,
    "loose": grow_loose,
    "pair": grow_pair,
    "variable": grow_variable,
    "shape": grow_shape,
    "unknown": grow_unknown,
}
