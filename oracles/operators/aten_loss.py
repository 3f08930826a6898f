"""Losses of torch itself, reduced or not."""

import math
from collections.abc import Callable

from oracles.operators.aten_index import indices
from oracles.relation.arithmetic import SUMS_INSIDE
from oracles.relation.aten import FLOATING, WIDE, aten
from oracles.relation.operator import Operator, Sampler, TypeRule
from oracles.relation.program import ALONG, MATRIX, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import Attributes, Choice, choices, magnitudes, same_shape, shaped
from oracles.relation.types import DType, Range, Shape


def _unless_reduced(shape: Callable[[Call], Shape]) -> TypeRule:
    """One number, or a number each if the loss is not reduced."""
    return shaped(lambda call: () if call.integer("reduction", 1) else shape(call))


def _sample_classes(scope: Scope, focus: Operand) -> Call | None:
    """Classes along dim 1, all of them there; perhaps weights, and a class that does not count."""
    classes = focus.shape[1]
    if classes < 2:
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


def _lost(call: Call) -> float:
    return 8 * (magnitudes(call)[0] + 10) * math.prod(call.operand(0).shape)


def _loss(
    name: str,
    within: Range | None = None,
    draw: Choice | None = None,
    domain: Range | None = None,
    most: Callable[[Call], float] | None = None,
) -> Operator:
    """A loss of two tensors of one shape; the target lies `within` bounds."""

    def sample(scope: Scope, focus: Operand) -> Call:
        target = scope.supply(*focus.type, within)
        more = draw(scope, focus) if draw else {}
        return Call((focus, target), {**more, "reduction": scope.draws.below(3)})

    infer, most = _unless_reduced(same_shape), most or _apart
    return aten(name, Kind.NORM, SUMS_INSIDE, FLOATING, sample, infer, most, domain=domain, filled=True)


def _apart(call: Call) -> float:
    first, second = magnitudes(call)
    return (first + 8) * (second + 8) * math.prod(call.operand(0).shape)


def _squared(call: Call) -> float:
    return 2 * (sum(magnitudes(call)) + 1) ** 2 * math.prod(call.operand(0).shape)


def _exponential(call: Call) -> float:
    return (math.exp(4) + 50) * math.prod(call.operand(0).shape)


def _draw_poisson(scope: Scope, focus: Operand) -> Attributes:
    return {"log_input": 1, "full": scope.draws.below(2), "eps": 1e-6}


def _sample_triplet(scope: Scope, focus: Operand) -> Call:
    others = (scope.supply(*focus.type), scope.supply(*focus.type))
    margin = scope.draws.pick((1.0, 0.5))
    return Call((focus, *others), {"margin": margin, "reduction": scope.draws.below(3)})


def _sample_margin(scope: Scope, focus: Operand) -> Call:
    target = indices(scope, focus.shape[:1], focus.shape[1])
    return Call((focus, target), {"p": scope.draws.pick((1, 2)), "reduction": scope.draws.below(3)})


def _spread(call: Call) -> float:
    return (2 * sum(magnitudes(call)[:3]) + 2) ** 2 * math.prod(call.operand(0).shape)


def _of_rows(
    name: str,
    dtypes: tuple[DType, ...],
    sample: Sampler,
    infer: TypeRule,
    most: Callable[[Call], float],
    ranks: range,
) -> Operator:
    return aten(name, Kind.NORM, SUMS_INSIDE, dtypes, sample, infer, most, ranks, filled=True)


_CLASSIFIED = _unless_reduced(lambda call: (call.operand(0).shape[0], *call.operand(0).shape[2:]))
_TRIPLED = _unless_reduced(lambda call: call.operand(0).shape[:-1])
_MARGINS = _unless_reduced(lambda call: call.operand(0).shape[:1])
_SIGNS, _UNIT = Range(-1, 1, 1), Range(0.02, 0.98)

OPERATORS = (
    *(_loss(name, most=_squared) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")),
    _of_rows("cross_entropy_loss", FLOATING, _sample_smoothed, _CLASSIFIED, _lost, range(2, 5)),
    _of_rows("nll_loss_nd", WIDE, _sample_classes, _CLASSIFIED, _lost, range(2, 5)),
    _loss("kl_div", _UNIT, choices(log_target=(0, 1))),
    _loss("binary_cross_entropy", Range(0, 1), domain=_UNIT),
    _loss("binary_cross_entropy_with_logits", Range(0, 1)),
    _loss("soft_margin_loss", _SIGNS, domain=Range(-10, 10)),
    _loss("hinge_embedding_loss", _SIGNS, choices(margin=(1.0, 0.5))),
    _loss("poisson_nll_loss", Range(0, 9), _draw_poisson, Range(-4, 4), _exponential),
    _of_rows("triplet_margin_loss", WIDE, _sample_triplet, _TRIPLED, _spread, ALONG),
    _of_rows("multi_margin_loss", WIDE, _sample_margin, _MARGINS, _spread, MATRIX),
)
