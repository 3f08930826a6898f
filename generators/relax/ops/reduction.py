"""Over axes: sums, extremes, moments, places of extremes."""

import numpy as np

from generators.relax.operator import (
    ANY,
    Asking,
    Call,
    Dim,
    Fields,
    Given,
    Json,
    Likely,
    Operator,
    Recogniser,
    Tensor,
    Want,
    Within,
    all_of,
    is_float,
    is_number,
    of,
    ranked,
)

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
        return Call((Want(target.shaped(*shape), within),), target, ("StatisticalAttrs", told))

    return Operator(f"relax.{name}", recognise, solve, Likely.NUMBER, ranks=(0, 3))


def _place(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        shape, (axis,), keep = widened(asking, target, most=1)
        whole = len(shape) == 1 and asking.draws.chance(0.3)
        told = {"axis": None if whole else asking.axis(axis, len(shape)), "keepdims": keep}
        dtype = asking.float() if asking.draws.chance(0.6) else asking.integer()
        return Call((Want(Tensor(dtype, shape)),), target, ("ArgmaxArgminAttrs", told))

    return Operator(f"relax.{name}", of("int64"), solve, Likely.INTEGER, ranks=(0, 3))


def _median(asking: Asking, target: Tensor) -> Call:
    shape, (axis,), keep = widened(asking, target, most=1)
    told = {"axis": [asking.axis(axis, len(shape))], "keepdims": keep}
    result = Fields((target, target.of("int64")))
    return Call((Want(target.shaped(*shape)),), result, ("StatisticalAttrs", told), at=0)


_takes = all_of(of("float32", "float64", "int32", "int64"), ranked(1))


def _order(asking: Asking, target: Tensor) -> dict[str, Json]:
    axis = asking.axis(asking.draws.below(target.rank), target.rank)
    return {"axis": axis, "descending": asking.draws.chance(0.5)}


def _sort(asking: Asking, target: Tensor) -> Call:
    return Call((Want(target),), target, ("SortAttrs", _order(asking, target)))


def _argsort(asking: Asking, target: Tensor) -> Call:
    told = {**_order(asking, target), "dtype": target.dtype}
    return Call((Want(target.of("float32")),), target, ("ArgsortAttrs", told))


def _topk(asking: Asking, target: Tensor) -> Call | None:
    axis = asking.sized_axis(target.shape)
    if axis is None:
        return None
    count = int(target.shape[axis])
    shape = (*target.shape[:axis], count + asking.amount((0, 1, 2, 3), 32), *target.shape[axis + 1 :])
    kind = asking.draws.pick(["both", "values"])
    told = {
        "k": count,
        "axis": asking.axis(axis, target.rank),
        "ret_type": kind,
        "largest": asking.draws.chance(0.5),
        "dtype": asking.draws.pick(["int32", "int64"]),
    }
    source = Want(target.shaped(*shape))
    if kind == "values":
        return Call((source,), target, ("TopKAttrs", told))
    return Call((source,), Fields((target, target.of(str(told["dtype"])))), ("TopKAttrs", told), at=0)


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

    recognise = all_of(is_number, ranked(1), lambda told: told.dtype != "float16")
    return Operator(f"relax.{name}", recognise, solve, Likely.NUMBER, ranks=(1, 3))


_SCALE, _POSITIVE = Within(-4.0, 4.0), Within(0.25, 8.0)
_EPSILON = 1e-3


_has_axis = all_of(is_float, ranked(1))
_is_narrow = of("float32", "float16")
"""The only types that TVM's norms take."""


def _vector(target: Tensor, axis: int) -> Tensor:
    return target.shaped(target.shape[axis])


_PLAIN = 0.97
"""How often weights are used: TVM 0.27 is wrong in three operators where one is not, so that is rare."""


def _affine(asking: Asking) -> dict[str, Json]:
    center, scale = (asking.draws.chance(_PLAIN) for _ in range(2))
    return {"epsilon": _EPSILON, "center": center, "scale": scale}


def _layer(asking: Asking, target: Tensor) -> Call:
    count = asking.draws.between(1, min(2, target.rank))
    axes = [*range(target.rank - count, target.rank)]
    weights = Want(target.shaped(*target.shape[-count:]), _SCALE)
    told = {"axes": [axis - target.rank for axis in axes], **_affine(asking)}
    return Call((Want(target), weights, weights), target, ("LayerNormAttrs", told))


def _rms(asking: Asking, target: Tensor) -> Call:
    weights = Want(_vector(target, -1), _SCALE)
    return Call((Want(target), weights), target, ("RMSNormAttrs", {"axes": [-1], "epsilon": _EPSILON}))


def _group(asking: Asking, target: Tensor) -> Call | None:
    channels = target.shape[1]
    if not isinstance(channels, int) or not channels:
        return None
    groups = asking.draws.pick([each for each in range(1, channels + 1) if channels % each == 0])
    return _by_channel(asking, target, "GroupNormAttrs", {"num_groups": groups})


def _instance(asking: Asking, target: Tensor) -> Call:
    return _by_channel(asking, target, "InstanceNormAttrs", {})


def _by_channel(asking: Asking, target: Tensor, kind: str, told: dict[str, Json]) -> Call:
    told = {**told, "channel_axis": 1, "axes": [*range(2, target.rank)], **_affine(asking)}
    weights = Want(_vector(target, 1), _SCALE)
    return Call((Want(target), weights, weights), target, (kind, told))


def _batch(asking: Asking, target: Tensor) -> Call:
    axis = asking.draws.below(target.rank)
    each = _vector(target, axis)
    told = {"axis": axis, **_affine(asking), "momentum": 0.125, "training": False}
    wants = Want(target), Want(each, _SCALE), Want(each, _SCALE), Want(each, _SCALE), Want(each, _POSITIVE)
    return Call(wants, Fields((target, each, each)), ("BatchNormAttrs", told), at=0)


def _softmax(name: str) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        axis = asking.axis(asking.draws.below(target.rank), target.rank)
        return Call((Want(target),), target, ("SoftmaxAttrs", {"axis": axis}))

    return Operator(f"relax.nn.{name}", _has_axis, solve, ranks=(1, 4), weight=1.5)


def _cross_entropy(asking: Asking, target: Tensor) -> Call:
    return Call((Want(target.shaped(*asking.shape(1, 2)), _SCALE),) * 2, target)


def _nll(asking: Asking, target: Tensor) -> Call | None:
    reduction = "none" if target.rank else asking.draws.pick(["mean", "sum"])
    lead = target.shape if target.rank else asking.shape(1, 2)
    classes = asking.static() or 2
    predictions = target.shaped(lead[0], classes, *lead[1:])
    wants = [Want(predictions), Want(Tensor("int64", lead), Within(0, classes - 1))]
    if asking.draws.chance(0.6):
        wants.append(Want(target.shaped(classes), _POSITIVE))
    return Call(tuple(wants), target, ("NLLLossAttrs", {"reduction": reduction, "ignore_index": -100}))


def _nll_backward(asking: Asking, target: Tensor) -> Call | None:
    """The target is the gradient of the predictions; their second dim, or their only one, is the classes."""
    axis = 0 if target.rank == 1 else 1
    classes = target.shape[axis]
    if not isinstance(classes, int) or not classes:
        return None
    lead = (*target.shape[:axis], *target.shape[axis + 1 :])
    reduction = asking.draws.pick(["none", "mean", "sum"])
    gradient = target.shaped(*lead if reduction == "none" else ())
    wants = [Want(gradient), Want(target), Want(Tensor("int64", lead), Within(0, classes - 1))]
    if asking.draws.chance(0.6):
        wants.append(Want(target.shaped(classes), _POSITIVE))
    return Call(tuple(wants), target, ("NLLLossAttrs", {"reduction": reduction, "ignore_index": -100}))


def _dropout(asking: Asking, target: Tensor) -> Call:
    """The values, or the mask: as a program is run no element is dropped."""
    told = {"rate": asking.draws.pick([0.1, 0.5])}
    at = 0 if asking.draws.chance(0.8) else 1
    return Call((Want(target),), Fields((target, target)), ("DropoutAttrs", told), at=at)


_SIXTEENTHS = 16


def _multinomial(asking: Asking, target: Tensor) -> Call:
    """Probabilities are sixteenths, and what is drawn lies half a sixteenth from where a place ends."""
    draws = asking.draws
    count, rows, places = int(target.shape[0]), draws.between(1, 3), draws.between(1, 5)
    ends = [[0, *sorted(draws.below(17) for _ in range(places - 1)), _SIXTEENTHS] for _ in range(rows)]
    shares = np.diff(np.array(ends), axis=1) / _SIXTEENTHS
    drawn = np.array([(draws.below(_SIXTEENTHS) + 0.5) / _SIXTEENTHS for _ in range(count)])
    taken = Want(Tensor("int64", (count, 1)), Within(0, rows - 1))
    args = Given(shares.astype("float32")), Given(drawn.astype("float32").reshape(count, 1)), taken
    return Call(args, target, ("MultinomialFromUniformAttrs", {"dtype": target.dtype}))


def _is_sampled(told: Tensor) -> bool:
    is_column = told.rank == 2 and told.shape[1] == 1 and told.shape[0] != 0
    return is_column and told.is_static and told.dtype in ("int64", "int32")


OPERATORS = (
    Operator("relax.multinomial_from_uniform", _is_sampled, _multinomial, Likely.INTEGER, ranks=(2, 2)),
    *(_reduce(name, is_number) for name in ("max", "min")),
    *(_reduce(name, is_number, _SMALL) for name in ("sum", "prod")),
    *(_reduce(name, is_float) for name in ("mean", "std", "variance")),
    *(_place(name) for name in ("argmax", "argmin")),
    Operator("relax.median", is_float, _median, ranks=(0, 3), weight=0.5),
    Operator("relax.sort", _takes, _sort, Likely.NUMBER, ranks=(1, 3), weight=0.6),
    Operator("relax.argsort", all_of(of("int32", "int64"), ranked(1)), _argsort, Likely.INTEGER, (1, 3), 0.6),
    Operator("relax.topk", _takes, _topk, Likely.NUMBER, ranks=(1, 3), weight=0.6),
    _scan("cumsum"),
    _scan("cumprod"),
    Operator("relax.nn.layer_norm", all_of(_is_narrow, ranked(1)), _layer, ranks=(1, 4), weight=1.5),
    Operator("relax.nn.rms_norm", _has_axis, _rms, ranks=(1, 4)),
    Operator("relax.nn.group_norm", all_of(_is_narrow, ranked(3)), _group, ranks=(3, 4)),
    Operator("relax.nn.instance_norm", all_of(_is_narrow, ranked(3)), _instance, ranks=(3, 4)),
    Operator("relax.nn.batch_norm", _has_axis, _batch, ranks=(1, 4), weight=1.5),
    _softmax("softmax"),
    _softmax("log_softmax"),
    Operator(
        "relax.nn.cross_entropy_with_logits",
        all_of(is_float, ranked(0, 0)),
        _cross_entropy,
        ranks=(0, 0),
        weight=0.5,
    ),
    Operator("relax.nn.nll_loss", all_of(is_float, ranked(0, 2)), _nll, ranks=(0, 2), weight=0.5),
    Operator(
        "relax.grad.nll_loss_backward",
        all_of(is_float, ranked(1, 3)),
        _nll_backward,
        ranks=(1, 3),
        weight=0.4,
    ),
    Operator("relax.nn.dropout", is_float, _dropout, weight=0.5),
)
