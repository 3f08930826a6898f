"""Linear models and support vector machines of `ai.onnx.ml`: rows of features to scores, or to labels too."""

import math
from collections.abc import Mapping

from oracles.relation.arithmetic import SUMS_INSIDE, hull, symmetric
from oracles.relation.operator import Operator
from oracles.relation.program import MATRIX, Attribute, Call, DTypeFamily, Kind, Operand, Scope
from oracles.relation.types import (
    ANYTHING,
    F32,
    F64,
    I32,
    I64,
    TEXT,
    TRUTH,
    DType,
    Range,
    TensorType,
    is_filled,
)

FEATURES = (F32, F64, I64, I32)
LABELS = (0, 1, 2, 3, -1, 10, 7)
MOST_CLASSES = 4
_MOST_FEATURES = 64
_TRANSFORMS = ("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_CERTAIN = Range(0.001, 0.999)
"""Of probabilities beyond, a probit is far from zero, or infinite."""
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def is_table(focus: Operand) -> bool:
    """Whether the rows have features, and no more than attributes should list."""
    return is_filled(focus.shape[1:]) and focus.shape[1] <= _MOST_FEATURES


def eighths(scope: Scope, count: int, size: float = 1.0) -> tuple[float, ...]:
    """Numbers from minus a size to plus it, in eighths of it."""
    return tuple(size * (word % 17 - 8) / 8 for word in scope.draws.words(count).tolist())


def drawn_transform(scope: Scope) -> str:
    """What becomes of scores: mostly nothing."""
    return "NONE" if scope.draws.chance(0.5) else scope.draws.pick(_TRANSFORMS)


def transformed(scores: Range, transform: str) -> Range:
    """The range of transformed scores. A probit takes probabilities; a score alone may stay as it is."""
    if transform == "PROBIT":
        return symmetric(4.0) if scores.is_within(_CERTAIN) else ANYTHING
    return scores if transform == "NONE" else hull((scores, TRUTH))


def labels_of(
    scope: Scope, count: int, dtype: DType, name: str, numbers: tuple[int, ...] = LABELS
) -> dict[str, Attribute]:
    """The attribute that names classes: different words or numbers, in no order."""
    if dtype is TEXT:
        return {"classlabels_strings": tuple(scope.draws.sample(("no", "b", "", "a", "yes"), count))}
    return {name: tuple(scope.draws.sample(numbers, count))}


def label_dtype(scope: Scope) -> DType:
    """Of the classes of a new classifier."""
    return TEXT if scope.allows(TEXT) and scope.draws.chance(0.5) else I64


def infer_labels(call: Call, scores: int) -> tuple[TensorType, ...]:
    """A label a row, and its scores."""
    rows = call.operand(0).shape[0]
    labels = TEXT if "classlabels_strings" in call.attributes else I64
    return TensorType(labels, (rows,)), TensorType(F32, (rows, scores))


def bound_labels(call: Call, name: str) -> Range:
    """Bound labels that are numbers."""
    numbers = call.tuple_of(name, ())
    return Range(min(numbers), max(numbers)) if numbers else ANYTHING


def class_count(call: Call, name: str) -> int:
    """The classes that a classifier names."""
    words = call.attributes.get("classlabels_strings", ())
    assert isinstance(words, tuple)
    return len(words) or len(call.tuple_of(name, ()))


def _largest(call: Call, name: str) -> float:
    return max(map(abs, call.floats_of(name)), default=0.0)


def _around(call: Call, name: str, reach: float) -> Range:
    """All that lies within a distance from the numbers of an attribute."""
    centres = call.floats_of(name) or (0.0,)
    return Range(min(centres) - reach, max(centres) + reach)


def _weights(scope: Scope, focus: Operand, sets: int, transform: str) -> dict[str, Attribute]:
    """Coefficients and intercepts; where a probit follows, all scores are probabilities."""
    count = sets * focus.shape[1]
    if transform == "PROBIT":
        size = 0.4 / (focus.shape[1] * max(focus.range.magnitude, 1.0))
        return {"coefficients": eighths(scope, count, size), "intercepts": (0.5,) * sets}
    return {"coefficients": eighths(scope, count), "intercepts": eighths(scope, sets, 4.0)}


def _linear_scores(call: Call) -> Range:
    focus = call.operand(0)
    reach = focus.range.magnitude * focus.shape[1] * _largest(call, "coefficients")
    return _around(call, "intercepts", reach)


def _sample_regressor(scope: Scope, focus: Operand) -> Call | None:
    if not is_table(focus):
        return None
    targets = scope.draws.pick((1, 1, 2, 3))
    transform = drawn_transform(scope)
    attributes = {
        **_weights(scope, focus, targets, transform),
        "targets": targets,
        "post_transform": transform,
    }
    if transform != "PROBIT" and scope.draws.chance(0.3):
        del attributes["intercepts"]
    return Call((focus,), attributes)


def _infer_regressor(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(F32, (call.operand(0).shape[0], call.integer("targets", 1))),)


def _bound_regressor(call: Call) -> tuple[Range, ...]:
    return (transformed(_linear_scores(call), call.text_of("post_transform", "NONE")),)


def _sample_classifier(scope: Scope, focus: Operand) -> Call | None:
    """Of two classes one may have all coefficients."""
    if not is_table(focus):
        return None
    labels = label_dtype(scope)
    draws, transform = scope.draws, drawn_transform(scope)
    classes = draws.between(2, MOST_CLASSES)
    sets = 1 if classes == 2 and transform != "PROBIT" and draws.chance(0.5) else classes
    attributes = {
        **_weights(scope, focus, sets, transform),
        **labels_of(scope, classes, labels, "classlabels_ints"),
        "post_transform": transform,
    }
    return Call(
        (focus,), {**attributes, "multi_class": draws.below(2)} if draws.chance(0.3) else attributes, 2
    )


def _infer_classifier(call: Call) -> tuple[TensorType, ...]:
    return infer_labels(call, class_count(call, "classlabels_ints"))


def _bound_classifier(call: Call) -> tuple[Range, ...]:
    """The second of two classes may have what the first leaves, or the opposite."""
    scores = _linear_scores(call)
    if len(call.floats_of("intercepts")) == 1:
        scores = hull((scores, symmetric(scores.magnitude + 1)))
    return (
        bound_labels(call, "classlabels_ints"),
        transformed(scores, call.text_of("post_transform", "NONE")),
    )


_NO_KERNEL: Mapping[str, Attribute] = {"kernel_type": "LINEAR", "kernel_params": (0.0, 0.0, 0.0)}


def _kernel(scope: Scope, features: int) -> dict[str, Attribute]:
    """Its kind, and gamma, coef0 and degree, which are zero where the kind has no use for them."""
    draws, kind = scope.draws, scope.draws.pick(_KERNELS)
    gamma = 0.0 if kind == "LINEAR" else draws.pick((0.5, 0.25, 1.0 / features))
    coef0 = draws.pick((0.0, 1.0, -0.5)) if kind in ("POLY", "SIGMOID") else 0.0
    degree = draws.pick((1.0, 2.0, 3.0)) if kind == "POLY" else 0.0
    return {"kernel_type": kind, "kernel_params": (gamma, coef0, degree)}


def _kernel_reach(call: Call) -> float:
    """The largest magnitude that a kernel gives of a row and a vector."""
    focus, kind = call.operand(0), call.text_of("kernel_type", "LINEAR")
    vectors = "support_vectors" if "support_vectors" in call.attributes else "coefficients"
    product = focus.range.magnitude * focus.shape[1] * _largest(call, vectors)
    gamma, coef0, degree = map(abs, call.floats_of("kernel_params"))
    if kind == "POLY":
        return float((gamma * product + coef0) ** min(degree, 4.0))
    return product if kind == "LINEAR" else 1.0


def _svm_scores(call: Call) -> Range:
    """A linear machine has no vectors but its coefficients."""
    if "support_vectors" not in call.attributes:
        return _around(call, "rho", _kernel_reach(call))
    total = sum(map(abs, call.floats_of("coefficients"))) * _kernel_reach(call)
    return _around(call, "rho", total)


def _sample_svm_regressor(scope: Scope, focus: Operand) -> Call | None:
    """By support vectors, or linear; one in some tells only whether a row belongs to the one class."""
    if not is_table(focus):
        return None
    draws, features = scope.draws, focus.shape[1]
    transform = draws.pick(_TRANSFORMS[:3]) if draws.chance(0.2) else "NONE"
    given: dict[str, Attribute] = {"rho": eighths(scope, 1), "post_transform": transform}
    if draws.chance(0.3):
        given |= {**_NO_KERNEL, "n_supports": 0}
        return Call((focus,), {**given, "coefficients": eighths(scope, features)})
    count = draws.between(1, 5)
    given |= {**_kernel(scope, features), "n_supports": count, "coefficients": eighths(scope, count)}
    given["support_vectors"] = eighths(scope, count * features, 2.0)
    return Call((focus,), {**given, "one_class": 1} if draws.chance(0.25) else given)


def _infer_svm_regressor(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(F32, (call.operand(0).shape[0], 1)),)


def _bound_svm_regressor(call: Call) -> tuple[Range, ...]:
    scores = Range(-1, 1) if call.integer("one_class", 0) else _svm_scores(call)
    return (transformed(scores, call.text_of("post_transform", "NONE")),)


def _sample_svm_classifier(scope: Scope, focus: Operand) -> Call | None:
    """One machine for each pair of classes, which may give probabilities; or a linear one for each class."""
    if not is_table(focus):
        return None
    labels = label_dtype(scope)
    draws, features = scope.draws, focus.shape[1]
    classes = draws.between(2, MOST_CLASSES)
    given = labels_of(scope, classes, labels, "classlabels_ints")
    if draws.chance(0.5):
        given["post_transform"] = draws.pick(("NONE", *_TRANSFORMS[:3]))
    if draws.chance(0.25):
        given |= {**_NO_KERNEL, "rho": eighths(scope, 1)}
        return Call((focus,), {**given, "coefficients": eighths(scope, classes * features)}, 2)
    each = tuple(draws.between(1, 3) for _ in range(classes))
    count, pairs = sum(each), math.comb(classes, 2)
    given |= {
        **_kernel(scope, features),
        "vectors_per_class": each,
        "support_vectors": eighths(scope, count * features, 2.0),
        "coefficients": eighths(scope, (classes - 1) * count),
        "rho": eighths(scope, pairs),
    }
    if draws.chance(0.5):
        given |= {"prob_a": eighths(scope, pairs, 2.0), "prob_b": eighths(scope, pairs)}
    return Call((focus,), given, 2)


def _infer_svm_classifier(call: Call) -> tuple[TensorType, ...]:
    """A score a pair of more than two classes, unless there are probabilities, or one a class."""
    classes = class_count(call, "classlabels_ints")
    by_pair = classes > 2 and "vectors_per_class" in call.attributes and "prob_a" not in call.attributes
    return infer_labels(call, math.comb(classes, 2) if by_pair else classes)


def _bound_svm_classifier(call: Call) -> tuple[Range, ...]:
    scores = TRUTH if "prob_a" in call.attributes else _svm_scores(call)
    if class_count(call, "classlabels_ints") == 2:
        scores = symmetric(scores.magnitude + 1)
    return (
        bound_labels(call, "classlabels_ints"),
        transformed(scores, call.text_of("post_transform", "NONE")),
    )


def ml_model(name: str, *dtypes: DType) -> Operator:
    """The entry of an operator that computes scores from tables, and chooses labels by them."""
    name = f"ai.onnx.ml.{name}"
    return Operator(name, Kind.LINEAR, SUMS_INSIDE, dtypes, ranks=MATRIX, realm=DTypeFamily.ML)


OPERATORS = (
    ml_model("LinearRegressor", F32).by(_sample_regressor, _infer_regressor, _bound_regressor, None),
    ml_model("LinearClassifier", *FEATURES).by(
        _sample_classifier, _infer_classifier, _bound_classifier, None
    ),
    ml_model("SVMRegressor", F32).by(
        _sample_svm_regressor,
        _infer_svm_regressor,
        _bound_svm_regressor,
        None,
    ),
    ml_model("SVMClassifier", *FEATURES).by(
        _sample_svm_classifier, _infer_svm_classifier, _bound_svm_classifier, None
    ),
)
