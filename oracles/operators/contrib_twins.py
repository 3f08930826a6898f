"""Operators of `com.microsoft` that are ONNX's own in an earlier form, or in another one."""

from collections.abc import Callable
from dataclasses import replace

from oracles.operators import conv, indexed, pool, quantise, recurrent, resample
from oracles.relation.operator import Operator, Sampler
from oracles.relation.program import FIRST_OPSET, Call, Operand, Scope
from oracles.relation.types import BF16, F32, I32, MOVED, DType, Range, Shape, TensorType

_MODULES = (conv, indexed, pool, quantise, recurrent, resample)
_KNOWN: dict[str, Operator] = {
    operator.name: operator for module in _MODULES for operator in module.OPERATORS
}

Change = Callable[[Scope, Call], Call | None]
"""A call of ONNX's operator as one of its twin; None where the twin has no such form."""


def _sampler(twin: Operator, change: Change) -> Sampler:
    def sample(scope: Scope, focus: Operand) -> Call | None:
        call = twin.sample(scope, focus)
        return None if call is None else change(scope, call)

    return sample


def _earlier(scope: Scope, call: Call) -> Call | None:
    """Without what came to ONNX's operator later: batches, axes, and a mode."""
    is_later = (
        call.attributes.get("mode") == "wrap" or "batch_dims" in call.attributes or len(call.operands) > 3
    )
    return None if is_later else call


def _renamed(scope: Scope, call: Call) -> Call:
    """The interpolations have their earlier names."""
    names = {"linear": "bilinear", "cubic": "bicubic"}
    mode = str(call.attributes["mode"])
    return call._replace(attributes={**call.attributes, "mode": names.get(mode, mode)})


def _masked(scope: Scope, call: Call) -> Call | None:
    """A mask that keeps everything. Gaps and rounding up are not for it."""
    if {"dilations", "ceil_mode", "storage_order"} & set(call.attributes):
        return None
    mask = scope.supply(I32, call.operand(0).shape, Range(1, 1))
    return call._replace(operands=(call.operand(0), mask), results=1)


def _padded(scope: Scope, call: Call) -> Call:
    """The pads are an operand, before the bias."""
    image, weight, *bias = call.operands
    pads = call.tuple_of("pads", (0,) * (2 * call.operand(0).rank - 4))
    attributes = {name: value for name, value in call.attributes.items() if name != "pads"}
    return Call((image, weight, scope.fix_ints(pads), *bias), attributes)


def _unpadded(call: Call) -> Call:
    image, weight, _, *bias = call.operands
    return Call((image, weight, *bias), {**call.attributes, "pads": call.ints(2) or ()})


def _last(shape: Shape) -> Shape:
    """The shape with its channels at the end."""
    return (shape[0], *shape[2:], shape[1])


def _first(shape: Shape) -> Shape:
    return (shape[0], shape[-1], *shape[1:-1])


def _sample_conv(scope: Scope, focus: Operand) -> Call | None:
    """The channels come second, or last."""
    twin = _KNOWN["QLinearConv"]
    if scope.draws.chance(0.5):
        return twin.sample(scope, focus)
    call = twin.sample(scope, focus._replace(shape=_first(focus.shape)))
    if call is None:
        return None
    return call._replace(
        operands=(focus, *call.operands[1:]), attributes={**call.attributes, "channels_last": 1}
    )


def _infer_conv(call: Call) -> tuple[TensorType, ...]:
    image, twin = call.operand(0), _KNOWN["QLinearConv"]
    if not call.integer("channels_last", 0):
        return twin.infer(call)
    turned = image._replace(shape=_first(image.shape))
    (made,) = twin.infer(call._replace(operands=(turned, *call.operands[1:])))
    return (made._replace(shape=_last(made.shape)),)


def _attending(scope: Scope, call: Call) -> Call | None:
    """At each step, the layer also sees a weighted mean of a memory, perhaps with its own state."""
    draws, (_, batch, size), (ways, _, hidden) = (scope.draws, call.operand(0).shape, call.operand(2).shape)
    if not batch:
        return None
    steps, depth, width = draws.between(1, 4), draws.between(1, 4), draws.between(1, 4)
    seen = draws.between(1, 3) if draws.chance(0.5) else None
    operands: list[Operand | None] = [call.operand(0)]
    operands.append(scope.supply(call.operand(0).dtype, (ways, 4 * hidden, size + (seen or depth))))
    operands += [*call.operands[2:], *[None] * (8 - len(call.operands))]
    shapes = ((ways, hidden, width), (ways, depth, width), (ways, width), (batch, steps, depth))
    operands += [scope.supply(call.operand(0).dtype, shape) for shape in shapes]
    operands.append(scope.supply(I32, (batch,), Range(1, steps)))
    if seen:
        operands.append(scope.supply(call.operand(0).dtype, (ways, depth + hidden, seen)))
    return call._replace(operands=tuple(operands))


def _twin(name: str, change: Change, of: str = "", dtypes: tuple[DType, ...] = ()) -> Operator:
    """The entry of ONNX's operator `of`, or of the one of the same name, changed call by call."""
    twin = _KNOWN[of or name]
    return replace(
        twin,
        name=f"com.microsoft.{name}",
        dtypes=dtypes or twin.dtypes,
        sampler=_sampler(twin, change),
        inverse=None,
        since=FIRST_OPSET,
    )


OPERATORS = (
    _twin("GatherND", _earlier, dtypes=tuple(dtype for dtype in MOVED if dtype is not BF16)),
    _twin("Pad", _earlier, dtypes=(F32,)),
    _twin("GridSample", _renamed),
    _twin("MaxpoolWithMask", _masked, "MaxPool", (F32,)),
    replace(
        _twin("ConvTransposeWithDynamicPads", _padded, "ConvTranspose"),
        infer=lambda call: _KNOWN["ConvTranspose"].infer(_unpadded(call)),
        bound=lambda call: _KNOWN["ConvTranspose"].bound(_unpadded(call)),
    ),
    replace(_twin("QLinearConv", lambda scope, call: call), sampler=_sample_conv, infer=_infer_conv),
    _twin("AttnLSTM", _attending, "LSTM"),
)
