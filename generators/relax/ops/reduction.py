"""Over axes: sums, extremes, moments, places of extremes."""

import numpy as np

from generators.relax.operator import (
    ANY,
    BOOL,
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


_SUMMANDS = Within(-2.0, 2.0)


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
        return Call((Want(target, _SUMMANDS),), target, ("ScanopAttrs", told))

    def recognise(told: Tensor) -> bool:
        return told.rank >= 1 and told.dtype not in (BOOL, "float16")

    return Operator(f"relax.{name}", recognise, solve, Likely.NUMBER, ranks=(1, 3))


_SCALE, _POSITIVE = Within(-4.0, 4.0), Within(0.25, 8.0)
_EPSILON = 1e-3


def _has_axis(told: Tensor) -> bool:
    return told.is_float and told.rank >= 1


def _is_narrow(told: Tensor) -> bool:
    """Check for float16 and float32, the only types that TVM's norms take."""
    return told.dtype in ("float32", "float16")


def _vector(target: Tensor, axis: int) -> Tensor:
    return Tensor(target.dtype, (target.shape[axis],))


_PLAIN = 0.97
"""How often weights are used: TVM 0.27 is wrong in three operators where one is not, so that is rare."""


def _affine(asking: Asking) -> dict[str, Json]:
    center, scale = (asking.draws.chance(_PLAIN) for _ in range(2))
    return {"epsilon": _EPSILON, "center": center, "scale": scale}


def _layer(asking: Asking, target: Tensor) -> Call:
    count = asking.draws.between(1, min(2, target.rank))
    axes = [*range(target.rank - count, target.rank)]
    weights = Want(Tensor(target.dtype, target.shape[-count:]), _SCALE)
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
    told = {
        "num_groups": groups,
        "channel_axis": 1,
        "axes": [*range(2, target.rank)],
        **_affine(asking),
    }
    weights = Want(_vector(target, 1), _SCALE)
    return Call((Want(target), weights, weights), target, ("GroupNormAttrs", told))


def _instance(asking: Asking, target: Tensor) -> Call:
    told = {"channel_axis": 1, "axes": [*range(2, target.rank)], **_affine(asking)}
    weights = Want(_vector(target, 1), _SCALE)
    return Call((Want(target), weights, weights), target, ("InstanceNormAttrs", told))


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
    shape = asking.shape(1, 2)
    wants = (Want(Tensor(target.dtype, shape), _SCALE),) * 2
    return Call(wants, target)


def _nll(asking: Asking, target: Tensor) -> Call | None:
    reduction = "none" if target.rank else asking.draws.pick(["mean", "sum"])
    lead = target.shape if target.rank else asking.shape(1, 2)
    classes = asking.static() or 2
    predictions = Tensor(target.dtype, (lead[0], classes, *lead[1:]))
    wants = [Want(predictions), Want(Tensor("int64", lead), Within(0, classes - 1))]
    if asking.draws.chance(0.6):
        wants.append(Want(Tensor(target.dtype, (classes,)), _POSITIVE))
    return Call(tuple(wants), target, ("NLLLossAttrs", {"reduction": reduction, "ignore_index": -100}))


def _nll_backward(asking: Asking, target: Tensor) -> Call | None:
    """The target is the gradient of the predictions; their second dim, or their only one, is the classes."""
    axis = 0 if target.rank == 1 else 1
    classes = target.shape[axis]
    if not isinstance(classes, int) or not classes:
        return None
    lead = (*target.shape[:axis], *target.shape[axis + 1 :])
    reduction = asking.draws.pick(["none", "mean", "sum"])
    gradient = Tensor(target.dtype, lead if reduction == "none" else ())
    wants = [Want(gradient), Want(target), Want(Tensor("int64", lead), Within(0, classes - 1))]
    if asking.draws.chance(0.6):
        wants.append(Want(Tensor(target.dtype, (classes,)), _POSITIVE))
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
    *(_reduce(name, _is_number) for name in ("max", "min")),
    *(_reduce(name, _is_number, _SMALL) for name in ("sum", "prod")),
    *(_reduce(name, _is_float) for name in ("mean", "std", "variance")),
    *(_place(name) for name in ("argmax", "argmin")),
    Operator("relax.median", _is_float, _median, ranks=(0, 3), weight=0.5),
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
    Operator(
        "relax.nn.layer_norm",
        lambda told: _is_narrow(told) and told.rank >= 1,
        _layer,
        ranks=(1, 4),
        weight=1.5,
    ),
    Operator("relax.nn.rms_norm", _has_axis, _rms, ranks=(1, 4)),
    Operator("relax.nn.group_norm", lambda told: _is_narrow(told) and told.rank >= 3, _group, ranks=(3, 4)),
    Operator(
        "relax.nn.instance_norm", lambda told: _is_narrow(told) and told.rank >= 3, _instance, ranks=(3, 4)
    ),
    Operator("relax.nn.batch_norm", _has_axis, _batch, ranks=(1, 4), weight=1.5),
    _softmax("softmax"),
    _softmax("log_softmax"),
    Operator(
        "relax.nn.cross_entropy_with_logits",
        lambda told: told.is_float and not told.rank,
        _cross_entropy,
        ranks=(0, 0),
        weight=0.5,
    ),
    Operator(
        "relax.nn.nll_loss",
        lambda told: told.is_float and told.rank in (0, 1, 2),
        _nll,
        ranks=(0, 2),
        weight=0.5,
    ),
    Operator(
        "relax.grad.nll_loss_backward",
        lambda told: told.is_float and told.rank in (1, 2, 3),
        _nll_backward,
        ranks=(1, 3),
        weight=0.4,
    ),
    Operator("relax.nn.dropout", lambda told: told.is_float, _dropout, weight=0.5),
)
