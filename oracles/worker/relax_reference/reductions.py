"""Over axes: sums, extremes, moments, scans, orders, normalisations, losses."""

from typing import Any, Callable, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np

from oracles.worker.relax_reference.rule import (
    Args,
    Attrs,
    NotKnown,
    Rule,
    Rules,
    axes_of,
    axis_of,
    element,
    places_in,
    plain,
)


def reduced(function: Callable[..., Any]) -> Rule:
    """Make the rule of a reduction with `axis` and `keepdims`."""

    def rule(args: Args, attrs: Attrs) -> Any:
        axes = axes_of(attrs["axis"], args[0].ndim)
        return np.asarray(function(args[0], axis=axes, keepdims=attrs["keepdims"]))

    return rule


def same_type(function: Callable[..., Any]) -> Callable[..., Any]:
    """Sums stay in the type of their terms."""
    return lambda x, **told: function(x, **told).astype(x.dtype)


def mean(x: Any, **told: Any) -> Any:
    """The mean of floats. Raises NotKnown for integers, whose rounding is not defined."""
    if x.dtype.kind != "f":
        raise NotKnown("a mean of integers")
    return np.mean(x, **told)


def index_of(function: Callable[..., Any]) -> Rule:
    """Make the rule of argmax or argmin: int64 indices."""

    def rule(args: Args, attrs: Attrs) -> Any:
        axis = attrs["axis"]
        (x,) = args
        found = function(x, axis=axis)
        if attrs["keepdims"]:
            found = found.reshape([1] * x.ndim) if axis is None else np.expand_dims(found, axis)
        return np.asarray(found, np.int64)

    return rule


def scan(function: Callable[..., Any], neutral: int) -> Rule:
    """Make the rule of a running sum or product with its neutral element."""

    def rule(args: Args, attrs: Attrs) -> Any:
        (x,) = args
        x = x if attrs["dtype"] is None else x.astype(element(attrs["dtype"]))
        flat = x.reshape(-1) if attrs["axis"] is None else x
        axis = 0 if attrs["axis"] is None else axis_of(attrs["axis"], x.ndim)
        found = function(flat, axis=axis).astype(x.dtype)
        if not attrs["exclusive"]:
            return found
        first = np.full([1 if at == axis else size for at, size in enumerate(flat.shape)], neutral, x.dtype)
        return np.concatenate([first, np.delete(found, -1, axis)], axis) if flat.shape[axis] else found

    return rule


def order(x: Any, axis: int, descending: bool) -> Any:
    """Stable: of equals the first stays first."""
    if x.dtype.kind == "b":
        x = x.astype(np.int8)
    key = -x.astype(np.float64 if x.dtype.kind == "f" else np.int64) if descending else x
    return np.argsort(key, axis=axis, kind="stable")


def _sort(args: Args, attrs: Attrs) -> Any:
    places = order(args[0], attrs["axis"], attrs["descending"])
    return np.take_along_axis(args[0], places, attrs["axis"])


def _argsort(args: Args, attrs: Attrs) -> Any:
    return order(args[0], attrs["axis"], attrs["descending"]).astype(attrs["dtype"] or "int32")


def _topk(args: Args, attrs: Attrs) -> Any:
    (x,), axis = args, axis_of(attrs["axis"], args[0].ndim)
    count = attrs["k"] if attrs["k"] >= 1 else x.shape[axis]
    places = np.take(order(x, axis, attrs["largest"]), np.arange(min(count, x.shape[axis])), axis)
    values, places = np.take_along_axis(x, places, axis), places.astype(attrs["dtype"] or "int32")
    return {"both": (values, places), "values": values, "indices": places}[attrs["ret_type"]]


def median(args: Args, attrs: Attrs) -> Any:
    """The lower of the two in the middle, and its place."""
    (x,) = args
    if attrs["axis"] is None or len(attrs["axis"]) != 1:
        raise NotKnown("a median over several axes")
    axis = axis_of(attrs["axis"][0], x.ndim)
    places = np.take(order(x, axis, False), [(x.shape[axis] - 1) // 2], axis)
    found = np.take_along_axis(x, places, axis), places.astype(np.int64)
    return found if attrs["keepdims"] else tuple(np.squeeze(each, axis) for each in found)


def softmax(args: Args, attrs: Attrs) -> Any:
    """Return Relax's `softmax` of these operands."""
    shifted = np.exp(args[0] - args[0].max(axis=attrs["axis"], keepdims=True))
    return shifted / shifted.sum(axis=attrs["axis"], keepdims=True)


def _log_softmax(args: Args, attrs: Attrs) -> Any:
    shifted = args[0] - args[0].max(axis=attrs["axis"], keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=attrs["axis"], keepdims=True))


def _scaled(x: Any, axes: Sequence[int], epsilon: float) -> Any:
    average = x.mean(axis=tuple(axes), keepdims=True)
    return (x - average) / np.sqrt(x.var(axis=tuple(axes), keepdims=True) + epsilon)


def _along(value: Any, axes: Sequence[int], rank: int) -> Any:
    """Weights of these axes, to be broadcast over all others."""
    shape = [1] * rank
    for axis, size in zip(axes, value.shape):  # noqa: B905 (Python 3.8)
        shape[axis] = size
    return value.reshape(shape)


def _affine(x: Any, gamma: Any, beta: Any, axes: Sequence[int], attrs: Attrs) -> Any:
    x = x * _along(gamma, axes, x.ndim) if attrs["scale"] else x
    return x + _along(beta, axes, x.ndim) if attrs["center"] else x


def _layer_norm(args: Args, attrs: Attrs) -> Any:
    x, gamma, beta = args
    axes = axes_of(attrs["axes"], x.ndim)
    return _affine(_scaled(x, axes, attrs["epsilon"]), gamma, beta, axes, attrs)


def _instance_norm(args: Args, attrs: Attrs) -> Any:
    x, gamma, beta = args
    channel = (axis_of(attrs["channel_axis"], x.ndim),)
    return _affine(_scaled(x, axes_of(attrs["axes"], x.ndim), attrs["epsilon"]), gamma, beta, channel, attrs)


def _group_norm(args: Args, attrs: Attrs) -> Any:
    x, gamma, beta = args
    channel, groups = axis_of(attrs["channel_axis"], x.ndim), attrs["num_groups"]
    axes = axes_of(attrs["axes"], x.ndim)
    split = (*x.shape[:channel], groups, x.shape[channel] // groups, *x.shape[channel + 1 :])
    over = [axis + (axis > channel) for axis in axes if axis != channel]
    grouped = _scaled(x.reshape(split), [*over, channel + 1], attrs["epsilon"]).reshape(x.shape)
    return _affine(grouped, gamma, beta, (channel,), attrs)


def _rms_norm(args: Args, attrs: Attrs) -> Any:
    x, weight = args
    axes = axes_of(attrs["axes"], x.ndim)
    square = np.mean(x * x, axis=axes, keepdims=True)
    return x / np.sqrt(square + attrs["epsilon"]) * _along(weight, axes, x.ndim)


def _batch_norm(args: Args, attrs: Attrs) -> Any:
    x, gamma, beta, average, variance = args
    axis = axis_of(attrs["axis"], x.ndim)
    if attrs["training"]:
        raise NotKnown("a batch_norm that learns")
    along = (axis,)
    found = (x - _along(average, along, x.ndim)) / np.sqrt(_along(variance, along, x.ndim) + attrs["epsilon"])
    return _affine(found, gamma, beta, along, attrs), average, variance


def cross_entropy(predictions: Any, labels: Any) -> Any:
    """The cross entropy of predictions and labels, a mean over the batch."""
    total = -np.sum(predictions * labels)
    return np.asarray(total if predictions.ndim == 1 else total / predictions.shape[0])


def _nll_loss(args: Args, attrs: Attrs) -> Any:
    predictions, targets = args[:2]
    classes = predictions.shape[0 if predictions.ndim == 1 else 1]
    weights = args[2] if len(args) > 2 else np.ones(classes)
    counted = targets != attrs["ignore_index"]
    chosen = np.where(counted, targets, 0)
    spread = predictions if predictions.ndim > 1 else predictions[None]
    index = chosen[..., None] if predictions.ndim > 1 else chosen.reshape(1, 1)
    picked = np.take_along_axis(np.moveaxis(spread, 1, -1), index, -1)[..., 0].reshape(targets.shape)
    scale = np.where(counted, weights[chosen], 0.0)
    losses = -picked * scale
    if attrs["reduction"] == "none":
        return losses
    total = np.asarray(losses.sum())
    return total if attrs["reduction"] == "sum" else np.asarray(total / scale.sum())


def nll_loss_backward(args: Args, attrs: Attrs) -> Any:
    """The gradient of `nll_loss` with respect to its predictions."""
    gradient, predictions, targets = args[:3]
    axis = 0 if predictions.ndim == 1 else 1
    classes = predictions.shape[axis]
    weights = args[3] if len(args) > 3 else np.ones(classes)
    counted = targets != attrs["ignore_index"]
    scale = np.where(counted, weights[np.where(counted, targets, 0)], 0.0)
    told = np.broadcast_to(gradient, targets.shape)
    told = told / scale.sum() if attrs["reduction"] == "mean" else told
    is_chosen = np.moveaxis(np.expand_dims(targets, -1) == np.arange(classes), -1, axis)
    return np.where(is_chosen, -np.expand_dims(scale * told, axis), 0.0)


def multinomial(args: Args, attrs: Attrs) -> Any:
    """The first place of a row whose sum of probabilities so far exceeds a number of [0, 1)."""
    probabilities, drawn, rows = args
    sums = np.cumsum(probabilities, 1)[places_in(probabilities.shape, (rows[:, 0],))]
    return np.argmax(sums > drawn, 1)[:, None].astype(element(attrs["dtype"]))


RULES: Rules = {
    "relax.argmax": index_of(np.argmax),
    "relax.argmin": index_of(np.argmin),
    "relax.argsort": _argsort,
    "relax.cumprod": scan(np.cumprod, 1),
    "relax.cumsum": scan(np.cumsum, 0),
    "relax.grad.nll_loss_backward": nll_loss_backward,
    "relax.max": reduced(np.max),
    "relax.mean": reduced(mean),
    "relax.median": median,
    "relax.min": reduced(np.min),
    "relax.multinomial_from_uniform": multinomial,
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.cross_entropy_with_logits": plain(cross_entropy),
    "relax.nn.group_norm": _group_norm,
    "relax.nn.instance_norm": _instance_norm,
    "relax.nn.layer_norm": _layer_norm,
    "relax.nn.log_softmax": _log_softmax,
    "relax.nn.dropout": plain(lambda x: (x, np.ones_like(x))),
    "relax.nn.nll_loss": _nll_loss,
    "relax.nn.rms_norm": _rms_norm,
    "relax.nn.softmax": softmax,
    "relax.prod": reduced(same_type(np.prod)),
    "relax.sort": _sort,
    "relax.std": reduced(np.std),
    "relax.sum": reduced(same_type(np.sum)),
    "relax.topk": _topk,
    "relax.variance": reduced(np.var),
}
