"""Losses of torch itself, reduced or not."""

import math
from collections.abc import Callable

from oracles.operators.aten_index import indices
from oracles.operators.aten_reduce import loss_shape
from oracles.relation.arithmetic import SUMS_INSIDE
from oracles.relation.aten import FLOATING, WIDE, aten, by_type, magnitudes, shaped, summing
from oracles.relation.open_checks import is_filled
from oracles.relation.operator import Operator, RangeRule
from oracles.relation.program import ALONG, Attribute, Call, Kind, Operand, Scope
from oracles.relation.types import Range, Shape


def _sample_classes(scope: Scope, focus: Operand) -> Call | None:
    """Classes along dim 1, all of them there; perhaps weights, and a class that does not count."""
    classes = focus.shape[1]
    if not is_filled(focus.shape) or classes < 2:
        return None
    target = indices(scope, (focus.shape[0], *focus.shape[2:]), classes)
    weights = (scope.supply(focus.dtype, (classes,), Range(0.5, 4)),) if scope.draws.chance(0.5) else ()
    attributes: dict[str, Attribute] = {"reduction": scope.draws.below(3)}
    if attributes["reduction"] != 1 and scope.draws.chance(0.4):
        attributes["ignore_index"] = scope.draws.below(classes)
    return Call((focus, target, *weights), attributes)


def _sample_smoothed(scope: Scope, focus: Operand) -> Call | None:
    call = _sample_classes(scope, focus)
    if call is None or "ignore_index" in call.attributes:
        return call
    return call._replace(attributes={**call.attributes, "label_smoothing": scope.draws.pick((0.0, 0.1, 0.5))})


def _classified(call: Call) -> Shape:
    shape = call.operand(0).shape
    return () if call.integer("reduction", 1) else (shape[0], *shape[2:])


def _lost(call: Call) -> float:
    return 8 * (magnitudes(call)[0] + 10) * math.prod(call.operand(0).shape)


Draw = Callable[[Scope], dict[str, Attribute]]


def _nothing(scope: Scope) -> dict[str, Attribute]:
    return {}


def _loss(
    name: str,
    within: Range | None = None,
    draw: Draw = _nothing,
    domain: Range | None = None,
    bound: RangeRule | None = None,
) -> Operator:
    """A loss of two tensors of one shape; the target lies `within` bounds."""

    def sample(scope: Scope, focus: Operand) -> Call | None:
        if not is_filled(focus.shape):
            return None
        target = scope.supply(*focus.type, within)
        return Call((focus, target), {**draw(scope), "reduction": scope.draws.below(3)})

    infer = shaped(loss_shape)
    return aten(
        name,
        Kind.NORM,
        SUMS_INSIDE,
        FLOATING,
        sample,
        infer,
        bound or by_type(infer, _apart),
        domain=domain,
    )


def _apart(call: Call) -> float:
    first, second = magnitudes(call)
    return (first + 8) * (second + 8) * math.prod(call.operand(0).shape)


def _exponential(call: Call) -> tuple[Range, ...]:
    most = (math.exp(4) + 50) * math.prod(call.operand(0).shape)
    return (Range(-most, most),)


def _sample_triplet(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    others = (scope.supply(*focus.type), scope.supply(*focus.type))
    margin = scope.draws.pick((1.0, 0.5))
    return Call((focus, *others), {"margin": margin, "reduction": scope.draws.below(3)})


def _tripled(call: Call) -> Shape:
    return () if call.integer("reduction", 1) else call.operand(0).shape[:-1]


def _sample_margin(scope: Scope, focus: Operand) -> Call | None:
    if not is_filled(focus.shape):
        return None
    target = indices(scope, focus.shape[:1], focus.shape[1])
    return Call((focus, target), {"p": scope.draws.pick((1, 2)), "reduction": scope.draws.below(3)})


def _margins(call: Call) -> Shape:
    return () if call.integer("reduction", 1) else call.operand(0).shape[:1]


def _spread(call: Call) -> float:
    return (2 * sum(magnitudes(call)[:3]) + 2) ** 2 * math.prod(call.operand(0).shape)


_SIGNS, _UNIT = Range(-1, 1, 1), Range(0.02, 0.98)

OPERATORS = (
    summing("cross_entropy_loss", _sample_smoothed, _classified, _lost, range(2, 5)),
    summing("nll_loss_nd", _sample_classes, _classified, _lost, range(2, 5), WIDE),
    _loss("kl_div", _UNIT, lambda scope: {"log_target": scope.draws.below(2)}),
    _loss("binary_cross_entropy", Range(0, 1), domain=_UNIT),
    _loss("binary_cross_entropy_with_logits", Range(0, 1)),
    _loss("soft_margin_loss", _SIGNS, domain=Range(-10, 10)),
    _loss("hinge_embedding_loss", _SIGNS, lambda scope: {"margin": scope.draws.pick((1.0, 0.5))}),
    _loss(
        "poisson_nll_loss",
        Range(0, 9),
        lambda scope: {"log_input": 1, "full": scope.draws.below(2), "eps": 1e-6},
        Range(-4, 4),
        _exponential,
    ),
    summing("triplet_margin_loss", _sample_triplet, _tripled, _spread, ALONG, WIDE),
    summing("multi_margin_loss", _sample_margin, _margins, _spread, range(2, 3), WIDE),
)
