"""Normalisations, softmax, dropout's way of doing nothing, losses."""

from __future__ import annotations

from generators.relax.operator import Asking, Call, Operator, Want, Within
from generators.relax.types import Fields, Json, Tensor

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


OPERATORS = (
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
