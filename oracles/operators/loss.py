"""Losses, determinants, transforms, counts of n-grams."""

import math

from oracles.relation.arithmetic import LOGARITHM_OF_SUM, ROUNDS, SUMS, SUMS_INSIDE, Arithmetic, symmetric
from oracles.relation.operator import Inverse, Operator, RangeRule, Sampler, TypeRule
from oracles.relation.program import FIRST_OPSET, FLAT, MAX_RANK, Attribute, Call, Kind, Operand, Scope
from oracles.relation.rules import another_dim, inverted, shaped
from oracles.relation.types import F16, F32, F64, I32, I64, DType, Range, Shape, TensorType


def _sample_loss(scope: Scope, focus: Operand) -> Call:
    """A class for each place; with or without weights of the classes."""
    return _loss(scope, focus, scope.draws.pick(("none", "none", "mean", "sum")))


def _loss(scope: Scope, focus: Operand, reduction: str) -> Call:
    classes = focus.shape[1]
    labels = scope.supply(I64, (focus.shape[0], *focus.shape[2:]), Range(0, classes - 1))
    operands: tuple[Operand, ...] = (focus, labels)
    if scope.draws.chance(0.4):
        operands += (scope.supply(focus.dtype, (classes,), Range(0.5, 2)),)
    attributes: dict[str, Attribute] = {"reduction": reduction}
    if reduction != "mean" and scope.draws.chance(0.3):  # a mean over nothing is not a number
        attributes["ignore_index"] = scope.draws.between(-1, classes)
    return Call(operands, attributes)


def _sample_cross_entropy(scope: Scope, focus: Operand) -> Call:
    """The logarithms of the probabilities are a second result."""
    return _sample_loss(scope, focus)._replace(results=scope.draws.pick((1, 1, 2)))


def _infer_loss(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    shape = (focus.shape[0], *focus.shape[2:]) if call.attributes["reduction"] == "none" else ()
    return (TensorType(focus.dtype, shape), focus.type)[: call.results]


def _bound_loss(call: Call) -> tuple[Range, ...]:
    """Log-probabilities are at most twice the values in size and a logarithm more."""
    focus = call.operand(0)
    count = math.prod(focus.shape) if call.attributes["reduction"] == "sum" else 1
    one = 2 * focus.range.magnitude + math.log(focus.shape[1]) + 1
    return (symmetric(2 * count * one), Range(-one, 0.01))[: call.results]


def _solve_loss(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    shape = wanted.shape
    if not shape:
        focus = scope.supply(wanted.dtype, tuple(max(1, dim) for dim in scope.shape(2)))
        return _loss(scope, focus, scope.draws.pick(("mean", "sum")))
    source = (shape[0], another_dim(scope, shape), *shape[1:])
    return _loss(scope, scope.supply(wanted.dtype, source), "none")


def _sample_det(scope: Scope, focus: Operand) -> Call | None:
    size = focus.shape[-1]
    return Call((focus,)) if size == focus.shape[-2] and 1 <= size <= 3 else None


_RESULT = shaped(lambda call: call.operand(0).shape[:-2])


def _bound_det(call: Call) -> tuple[Range, ...]:
    focus = call.operand(0)
    size = focus.shape[-1]
    return (symmetric(math.factorial(size) * max(focus.range.magnitude, 1.0) ** size),)


def _solve_det(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    size = 2 if another_dim(scope, wanted.shape, 1) > 3 else 1
    return Call((scope.supply(wanted.dtype, (*wanted.shape, size, size)),))


def _sample_dft(scope: Scope, focus: Operand) -> Call | None:
    """Real or complex signals, along one of the axes between the batch and the parts."""
    if focus.shape[-1] not in (1, 2):
        return None
    axis = scope.draws.between(1, focus.rank - 2)
    return _dft(scope, focus, axis, focus.shape[-1] == 2 and scope.draws.chance(0.4))


def _dft(scope: Scope, focus: Operand, axis: int, inverse: bool) -> Call:
    attributes: dict[str, Attribute] = {"inverse": 1} if inverse else {}
    if scope.opset >= 20:
        return Call((focus, None, scope.fix_scalar(axis, I64)), attributes)
    return Call((focus,), {**attributes, "axis": axis})


def _infer_dft(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return (TensorType(focus.dtype, (*focus.shape[:-1], 2)),)


def _bound_dft(call: Call) -> tuple[Range, ...]:
    return (symmetric(2 * max(call.operand(0).shape) * call.operand(0).range.magnitude),)


def _solve_dft(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    source = (*wanted.shape[:-1], scope.draws.between(1, 2))
    axis = scope.draws.between(1, len(source) - 2)
    return _dft(scope, scope.supply(wanted.dtype, source), axis, False)


def _is_transformed(shape: Shape) -> bool:
    return 3 <= len(shape) <= MAX_RANK and shape[-1] == 2


def _sample_grams(scope: Scope, focus: Operand) -> Call:
    return _grams(scope, focus, scope.draws.between(1, 4))


def _grams(scope: Scope, focus: Operand, count: int) -> Call:
    """Counts of single numbers; the pool is as wide as the result."""
    attributes: dict[str, Attribute] = {
        "max_gram_length": 1,
        "max_skip_count": 0,
        "min_gram_length": 1,
        "mode": scope.draws.pick(("TF", "IDF", "TFIDF")),
        "ngram_counts": (0,),
        "ngram_indexes": tuple(range(count)),
        "pool_int64s": tuple(range(count)),
        "weights": tuple(scope.draws.pick((1.0, 0.5, 2.0)) for _ in range(count)),
    }
    return Call((focus,), attributes)


def _infer_grams(call: Call) -> tuple[TensorType, ...]:
    count = len(call.tuple_of("ngram_indexes", ()))
    return (TensorType(F32, (*call.operand(0).shape[:-1], count)),)


def _bound_grams(call: Call) -> tuple[Range, ...]:
    return (Range(0, 2.0 * call.operand(0).shape[-1]),)


def _solve_grams(operator: Operator, scope: Scope, wanted: TensorType) -> Call:
    rows = wanted.shape[:-1]
    shape = (*rows, another_dim(scope, rows))
    return _grams(scope, scope.supply(scope.draws.pick(operator.dtypes), shape), wanted.shape[-1])


_LOSS, _DET = inverted(range(MAX_RANK), _solve_loss), inverted(range(4), _solve_det)
_DFT, _GRAMS = inverted(_is_transformed, _solve_dft), inverted(range(1, 3), _solve_grams, F32)


def _filled(
    name: str,
    kind: Kind,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    sample: Sampler,
    infer: TypeRule,
    bound: RangeRule,
    ranks: range,
    inverse: Inverse,
    since: int = FIRST_OPSET,
) -> Operator:
    return Operator(
        name, kind, arithmetic, dtypes, sample, infer, bound, ranks, inverse, filled=True, since=since
    )


OPERATORS = (
    *(
        _filled(name, Kind.REDUCE, arithmetic, (F32, F64), sample, _infer_loss, _bound_loss, FLAT, _LOSS)
        for name, arithmetic, sample in (
            ("NegativeLogLikelihoodLoss", SUMS, _sample_loss),
            ("SoftmaxCrossEntropyLoss", LOGARITHM_OF_SUM, _sample_cross_entropy),
        )
    ),
    _filled("Det", Kind.REDUCE, SUMS_INSIDE, (F32, F16), _sample_det, _RESULT, _bound_det, FLAT, _DET),
    _filled(
        "DFT",
        Kind.MATH,
        SUMS_INSIDE,
        (F32, F64),
        _sample_dft,
        _infer_dft,
        _bound_dft,
        range(3, MAX_RANK + 1),
        _DFT,
        17,
    ),
    _filled(
        "TfIdfVectorizer",
        Kind.REDUCE,
        ROUNDS,
        (I32, I64),
        _sample_grams,
        _infer_grams,
        _bound_grams,
        range(1, 3),
        _GRAMS,
    ),
)
