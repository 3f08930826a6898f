"""Reading and writing by indices; quantisation and its way back."""

import numpy as np

from generators.relax.operator import (
    FLOATS,
    Argument,
    Asking,
    Call,
    Dim,
    Given,
    Group,
    Likely,
    Operator,
    Tensor,
    Want,
    Within,
    all_of,
    anything,
    is_filled,
    is_float,
    is_number,
    is_static,
    number,
    of,
    ranked,
    shape_literal,
    size_of,
)

_ranked = ranked(1)
_is_number = all_of(is_number, is_filled, ranked(1))


def _index(asking: Asking) -> str:
    return asking.draws.pick(["int64", "int32"])


def _take(asking: Asking, target: Tensor) -> Call:
    """Let some of the target's dims be those of the indices; the dim that they look into is new."""
    axis = asking.draws.below(target.rank + 1)
    count = asking.draws.below(min(2, target.rank - axis) + 1)
    size = asking.static() or 2
    shape: tuple[Dim, ...] = (*target.shape[:axis], size, *target.shape[axis + count :])
    indices = Tensor(_index(asking), target.shape[axis : axis + count])
    mode = asking.draws.pick(["fast", "clip", "wrap"])
    low, high = (0, size - 1) if mode == "fast" else (-size, 2 * size)
    told = {"axis": axis, "mode": mode}
    wants = Want(target.shaped(*shape)), Want(indices, Within(low if mode == "wrap" else 0, high))
    return Call(wants, target, ("TakeAttrs", told))


def _gather_elements(asking: Asking, target: Tensor) -> Call:
    axis = asking.draws.below(target.rank)
    size = asking.static() or 2
    shape = (*target.shape[:axis], size, *target.shape[axis + 1 :])
    indices = Want(target.of(_index(asking)), Within(0, size - 1))
    told = {"axis": asking.axis(axis, target.rank)}
    return Call((Want(target.shaped(*shape)), indices), target, ("GatherElementsAttrs", told))


def _gather_nd(asking: Asking, target: Tensor) -> Call:
    """The last `kept` dims are read whole."""
    kept = asking.draws.below(target.rank)
    split = target.rank - kept
    lead, count = target.shape[:split], asking.draws.between(1, 2)
    size = asking.static() or 2
    source = target.shaped(*(size,) * count, *target.shape[split:])
    indices = Tensor("int64", (*lead, count))
    wants = Want(source), Want(indices, Within(0, size - 1))
    return Call(wants, target, ("GatherNDAttrs", {"batch_dims": 0}))


def _different(asking: Asking, size: int, count: int) -> list[int]:
    return asking.draws.sample(range(size), min(size, count))


_REDUCTIONS = ("update", "add", "mul", "max", "min")
_SMALL = Within(-2.0, 2.0)


def _scatter_elements(asking: Asking, target: Tensor) -> Call:
    """No place is written to twice: the order of writing is not said."""
    axis = asking.draws.below(target.rank)
    shape = asking.concrete(target.shape)
    rows = _different(asking, shape[axis], asking.draws.between(1, 3))
    updates = tuple(
        len(rows) if at == axis else asking.draws.between(1, size) for at, size in enumerate(shape)
    )
    along = [1] * len(shape)
    along[axis] = len(rows)
    indices = np.broadcast_to(np.array(rows, "int64").reshape(along), updates)
    told = {"axis": asking.axis(axis, target.rank), "reduction": asking.draws.pick(_REDUCTIONS)}
    args = Want(target, _SMALL), Given(np.array(indices)), Want(target.shaped(*updates), _SMALL)
    return Call(args, target, ("ScatterElementsAttrs", told))


def _scatter_nd(asking: Asking, target: Tensor) -> Call:
    rows = _different(asking, asking.size(target.shape[0]), asking.draws.between(1, 3))
    updates = target.shaped(len(rows), *target.shape[1:])
    indices = Given(np.array(rows, "int64").reshape(-1, 1))
    told = {"reduction": asking.draws.pick(_REDUCTIONS)}
    return Call((Want(target, _SMALL), indices, Want(updates, _SMALL)), target, ("ScatterNDAttrs", told))


def _index_tensor(asking: Asking, target: Tensor) -> Call:
    """The first dims of the operand are looked into by indices that broadcast."""
    count = asking.draws.between(1, 2)
    lead = asking.draws.between(1, min(2, target.rank))
    size = asking.static() or 2
    source = target.shaped(*(size,) * count, *target.shape[lead:])
    wants = tuple(Want(Tensor("int64", target.shape[:lead]), Within(0, size - 1)) for _ in range(count))
    return Call((Want(source), Group(wants)), target)


def _index_put(asking: Asking, target: Tensor) -> Call:
    rows = _different(asking, asking.size(target.shape[0]), asking.draws.between(1, 3))
    rest = [
        Given(np.zeros(len(rows), "int64") + asking.draws.below(asking.size(dim))) for dim in target.shape[1:]
    ]
    indices = Group((Given(np.array(rows, "int64")), *rest))
    values = Want(target.shaped(len(rows)), _SMALL)
    told = {"accumulate": asking.draws.chance(0.4)}
    return Call((Want(target, Within(-100.0, 100.0)), indices, values), target, ("IndexPutAttrs", told))


def _bucketize(asking: Asking, target: Tensor) -> Call:
    edges = np.sort(np.array([asking.draws.between(-8, 8) / 2 for _ in range(asking.draws.between(1, 5))]))
    told = {"out_int32": target.dtype == "int32", "right": asking.draws.chance(0.5)}
    args = Want(target.of("float32")), Given(edges.astype("float32"))
    return Call(args, target, ("BucketizeAttrs", told))


def _take_backward(asking: Asking, target: Tensor) -> Call:
    axis = asking.draws.below(target.rank)
    size = asking.size(target.shape[axis])
    count = asking.draws.between(1, 3)
    gradient = target.shaped(*target.shape[:axis], count, *target.shape[axis + 1 :])
    indices = Want(Tensor("int32", (count,)), Within(0, size - 1))
    args = Want(gradient, Within(-10.0, 10.0)), Want(target), indices
    return Call(args, target, ("TakeAttrs", {"axis": axis, "mode": "clip"}))


def _steps(asking: Asking, target: Tensor, zero: str) -> tuple[Given, Given, int]:
    """A scale and a zero point for each place of an axis; by no axis for all."""
    axis = asking.draws.below(target.rank)
    count = asking.size(target.shape[axis])
    scales = np.array([asking.draws.pick([0.125, 0.25, 0.5, 1.0]) for _ in range(count)], "float32")
    zeros = np.array([asking.draws.between(0, 3) for _ in range(count)]).astype(zero)
    return Given(scales), Given(zeros), axis


def _quantize(asking: Asking, target: Tensor) -> Call:
    scale, zero, axis = _steps(asking, target, target.dtype)
    source = Want(target.of("float32"), Within(-20.0, 20.0))
    return Call((source, scale, zero), target, ("QuantizeAttrs", {"out_dtype": target.dtype, "axis": axis}))


def _dequantize(asking: Asking, target: Tensor) -> Call:
    dtype = asking.draws.pick(["int8", "uint8"])
    scale, zero, axis = _steps(asking, target, dtype)
    told = {"out_dtype": target.dtype, "axis": axis}
    return Call((Want(target.of(dtype)), scale, zero), target, ("QuantizeAttrs", told))


def _init(target: Tensor, *args: Argument) -> Call:
    return Call(args, target, ("InitAttrs", {"dtype": target.dtype}))


def _filled(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        return _init(target, shape_literal(target.shape))

    return Operator(f"relax.{name}", anything, solve, Likely.ANYTHING, weight=0.5)


def _like(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        other = target.of(asking.float()) if asking.draws.chance(0.3) else target
        told = {"dtype": None if other == target and asking.draws.chance(0.5) else target.dtype}
        return Call((Want(other),), target, ("InitAttrs", told))

    return Operator(f"relax.{name}", anything, solve, Likely.ANYTHING, weight=0.5)


def _scalar(asking: Asking, dtype: str) -> Given:
    return Given(np.array(asking.draws.between(0, 5)).astype(dtype))


def _full(asking: Asking, target: Tensor) -> Call:
    return _init(target, shape_literal(target.shape), _scalar(asking, target.dtype))


def _full_like(asking: Asking, target: Tensor) -> Call:
    return Call((Want(target), _scalar(asking, target.dtype)), target, ("InitAttrs", {"dtype": None}))


def _arange(asking: Asking, target: Tensor) -> Call | None:
    (count,) = target.shape
    if not isinstance(count, int):
        return _init(target, number(0), number(count), number(1))
    first, step = asking.amount((0, 1, 2, 3), 64), asking.amount((1, 1, 2, 3), 64)
    last = first + count * step - (asking.draws.below(step) if count else 0)
    return _init(target, number(first), number(last), number(step))


def _eye(asking: Asking, target: Tensor) -> Call:
    return _init(target, *map(number, target.shape), number(asking.amount((-1, 0, 1, 2), 8)))


def _eye_like(asking: Asking, target: Tensor) -> Call:
    args = Want(target), number(asking.amount((-1, 0, 1, 2), 8))
    return Call(args, target, ("InitAttrs", {"dtype": None}))


def _hamming(asking: Asking, target: Tensor) -> Call | None:
    (size,) = target.shape
    if not isinstance(size, int) or size < 2:
        return None
    periodic = number(asking.draws.below(2), "bool")
    return _init(target, number(size), periodic, number(0.54, "float32"), number(0.46, "float32"))


def _one_hot(asking: Asking, target: Tensor) -> Call | None:
    axis = asking.sized_axis(target.shape)
    if axis is None:
        return None
    depth = size_of(target.shape[axis], {})
    indices = Tensor(asking.draws.pick(["int32", "int64"]), (*target.shape[:axis], *target.shape[axis + 1 :]))
    on, off = asking.draws.pick([(1, 0), (3, 1)])
    told = {"depth": depth, "axis": axis - target.rank if axis == target.rank - 1 else axis}
    values = (number(float(each) if target.is_float else each, target.dtype) for each in (on, off))
    return Call((Want(indices, Within(0, depth - 1)), *values), target, ("OneHotAttrs", told))


def _triangle(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        return Call((Want(target), number(asking.amount((-2, -1, 0, 1, 2), 8))), target)

    return Operator(f"relax.{name}", ranked(2), solve, Likely.NUMBER, ranks=(2, 4))


def _size(asking: Asking, target: Tensor) -> Call:
    return Call((Want(Tensor(asking.float(), asking.shape(0, 3))),), target)


def _shape_to_tensor(asking: Asking, target: Tensor) -> Call | None:
    (count,) = target.shape
    if not isinstance(count, int) or count > 6:
        return None
    return Call((shape_literal(tuple(asking.dim() for _ in range(count))),), target)


_static = all_of(ranked(1), is_static)
_square = all_of(ranked(2, 2), is_number)
OPERATORS = (
    Operator("relax.take", anything, _take, Likely.ANYTHING, ranks=(0, 3), weight=1.5),
    Operator("relax.gather_elements", _ranked, _gather_elements, Likely.NUMBER, ranks=(1, 3)),
    Operator("relax.gather_nd", _ranked, _gather_nd, Likely.NUMBER, ranks=(1, 3)),
    Operator("relax.scatter_elements", _is_number, _scatter_elements, Likely.NUMBER, ranks=(1, 3)),
    Operator("relax.scatter_nd", _is_number, _scatter_nd, Likely.NUMBER, ranks=(1, 3)),
    Operator("relax.index_tensor", _ranked, _index_tensor, Likely.NUMBER, ranks=(1, 3)),
    Operator("relax.index_put", _is_number, _index_put, Likely.NUMBER, ranks=(1, 3)),
    Operator("relax.bucketize", of("int32", "int64"), _bucketize, Likely.INTEGER),
    Operator(
        "relax.grad.take_backward", all_of(_is_number, is_float), _take_backward, ranks=(1, 3), weight=0.3
    ),
    Operator("relax.quantize", all_of(of("int8", "uint8"), _static), _quantize, Likely.INTEGER, (1, 3)),
    Operator("relax.dequantize", all_of(of("float32"), _static), _dequantize, ranks=(1, 3)),
    _filled("zeros"),
    _filled("ones"),
    _like("zeros_like"),
    _like("ones_like"),
    Operator("relax.full", is_number, _full, Likely.NUMBER, weight=0.5),
    Operator("relax.full_like", is_number, _full_like, Likely.NUMBER, weight=0.5),
    Operator(
        "relax.arange", all_of(ranked(1, 1), of("int64", "int32", "float32")), _arange, Likely.NUMBER, (1, 1)
    ),
    Operator("relax.eye", _square, _eye, Likely.NUMBER, ranks=(2, 2)),
    Operator("relax.eye_like", _square, _eye_like, ranks=(2, 2)),
    Operator("relax.hamming_window", all_of(ranked(1, 1), is_float), _hamming, ranks=(1, 1)),
    Operator("relax.one_hot", all_of(_ranked, of(*FLOATS, "int64")), _one_hot, Likely.NUMBER, (1, 3)),
    _triangle("tril"),
    _triangle("triu"),
    Operator("relax.size", all_of(of("int64"), ranked(0, 0)), _size, Likely.INTEGER, (0, 0), 0.5),
    Operator(
        "relax.shape_to_tensor",
        all_of(of("int64"), ranked(1, 1)),
        _shape_to_tensor,
        Likely.INTEGER,
        (1, 1),
        0.5,
    ),
)
