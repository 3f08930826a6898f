"""Operators of `ai.onnx.ml` on features: they map, scale, choose and encode the columns of a table."""

import math
from collections.abc import Sequence

import numpy as np

from corpus.values import Tensor
from oracles.relation.arithmetic import CHOOSES, MOVES, ROUNDS, SUMS_INSIDE, WHOLE, Arithmetic, Rounding, hull
from oracles.relation.operator import Operator, same_range
from oracles.relation.program import (
    ALONG,
    MAX_RANK,
    RANKS,
    Attribute,
    Call,
    DTypeFamily,
    Kind,
    Operand,
    Scope,
)
from oracles.relation.rules import (
    hull_range,
    inside,
    retyped,
    same_shape,
    shaped,
)
from oracles.relation.types import (
    ANYTHING,
    F32,
    F64,
    I16,
    I32,
    I64,
    NUMPY,
    TEXT,
    DType,
    Range,
    TensorType,
    dtype_of,
    is_filled,
)

_NUMBERS = (F32, F64, I64, I32)
_WORDS = ("a", "ab", "Ab", "b,a", "12", "-3.5", "", "z")
_LABELS = range(-4, 13)
_MOST_CATEGORIES = 8


Plain = str | float


def keys_of(scope: Scope, dtype: DType, count: int) -> list[Plain]:
    """Different values of a type, such as are drawn often; at most eight."""
    if dtype is TEXT:
        return [*scope.draws.sample(_WORDS, count)]
    found = scope.draws.sample(_LABELS, count)
    return [each / 4 if dtype in (F32, F64) else each for each in found]


def listed(dtype: DType, values: Sequence[Plain]) -> Attribute:
    """An attribute that is a list of values of this type."""
    if dtype is TEXT:
        return tuple(map(str, values))
    return tuple(map(float, values)) if dtype in (F32, F64) else tuple(map(int, values))


def _sample_extractor(scope: Scope, focus: Operand) -> Call | None:
    """Columns by their indices, in any order and more than once."""
    if not focus.shape[-1]:
        return None
    return Call((focus, scope.supply(I64, (scope.draws.between(1, 5),), Range(0, focus.shape[-1] - 1))))


def _infer_extractor(call: Call) -> tuple[TensorType, ...]:
    focus, indices = call.operand(0), call.operand(1)
    rows = focus.shape[:-1] if focus.rank > 1 else (1,)
    return (TensorType(focus.dtype, (*rows, indices.shape[0])),)


def _sample_binarizer(scope: Scope, focus: Operand) -> Call:
    given = scope.draws.chance(0.8)
    return Call((focus,), {"threshold": scope.draws.pick((0.0, 0.5, 1.0, -2.0))} if given else {})


_NAMES = {I64: "int64", F32: "float", TEXT: "string"}
_ENCODED = {
    I64: (I64, F32, TEXT, F64),
    F32: (I64, F32, TEXT),
    F64: (I64, F64, TEXT),
    TEXT: (I64, F32, TEXT, I16, F64),
}
"""The types of values, by those of keys, for which onnxruntime has kernels."""


def _sample_encoder(scope: Scope, focus: Operand) -> Call:
    """Now and then a key is NaN, or comes twice."""
    draws = scope.draws
    dtype = draws.pick([each for each in _ENCODED[focus.dtype] if each is not TEXT or scope.allows(TEXT)])
    keys = keys_of(scope, focus.dtype, draws.between(1, 6))
    if draws.chance(0.1):
        keys.append(math.nan if focus.dtype in (F32, F64) else keys[0])
    values = [draws.pick(keys_of(scope, dtype, 4)) for _ in keys]
    attributes = {**_list(scope, "keys", focus.dtype, keys), **_list(scope, "values", dtype, values)}
    if draws.chance(0.6):
        attributes |= _default(scope, dtype, "values_tensor" in attributes)
    return Call((focus,), attributes)


def _list(scope: Scope, name: str, dtype: DType, values: Sequence[Plain]) -> dict[str, Attribute]:
    """A list of the type, or a tensor where there is none."""
    if dtype in _NAMES and scope.draws.chance(0.7):
        return {f"{name}_{_NAMES[dtype]}s": listed(dtype, values)}
    return {f"{name}_tensor": _tensor(dtype, values)}


def _default(scope: Scope, dtype: DType, is_tensor: bool) -> dict[str, Attribute]:
    (value,) = keys_of(scope, dtype, 1)
    return {"default_tensor": _tensor(dtype, [value])} if is_tensor else {f"default_{_NAMES[dtype]}": value}


def _tensor(dtype: DType, values: Sequence[Plain]) -> Tensor:
    return np.array(values, dtype=np.str_ if dtype is TEXT else NUMPY[dtype])


def _encoded(call: Call) -> tuple[DType, list[float]]:
    """The type of what an encoder gives, and what it may be: -1, -0 or another default; none of text."""
    tensor = call.attributes.get("values_tensor")
    if isinstance(tensor, np.ndarray):
        default = call.attributes.get("default_tensor", np.array([-1]))
        assert isinstance(default, np.ndarray)
        numbers = () if tensor.dtype.kind in "UO" else (*tensor.tolist(), *default.reshape(-1).tolist(), 0)
        return dtype_of(tensor), list(numbers)
    if "values_strings" in call.attributes:
        return TEXT, []
    if "values_floats" in call.attributes:
        default = call.attributes.get("default_float", 0.0)
        return F32, [*call.floats_of("values_floats"), *((default,) if isinstance(default, float) else ())]
    return I64, [*call.tuple_of("values_int64s", ()), call.integer("default_int64", -1)]


def _infer_encoder(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(_encoded(call)[0], call.operand(0).shape),)


def _bound_encoder(call: Call) -> tuple[Range, ...]:
    numbers = _encoded(call)[1]
    return (Range(min(numbers), max(numbers)) if numbers else ANYTHING,)


def _sample_mapper(scope: Scope, focus: Operand) -> Call | None:
    """Words to numbers, or numbers to words."""
    if not scope.allows(TEXT):
        return None
    count = scope.draws.between(1, 6)
    names = {"cats_strings": TEXT, "cats_int64s": I64}
    pairs = {name: listed(dtype, keys_of(scope, dtype, count)) for name, dtype in names.items()}
    if focus.dtype is TEXT:
        return Call((focus,), {**pairs, "default_int64": scope.draws.pick((-1, 0, 99))})
    return Call((focus,), {**pairs, "default_string": scope.draws.pick(("_Unused", "", "no"))})


def _infer_mapper(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return (TensorType(I64 if focus.dtype is TEXT else TEXT, focus.shape),)


def _bound_mapper(call: Call) -> tuple[Range, ...]:
    if call.operand(0).dtype is not TEXT:
        return (ANYTHING,)
    numbers = (*call.tuple_of("cats_int64s", ()), call.integer("default_int64", -1))
    return (Range(min(numbers), max(numbers)),)


def _sample_vectorizer(scope: Scope, focus: Operand) -> Call:
    widths = [max(1, scope.dim()) for _ in range(scope.draws.below(3))]
    operands = [scope.supply(focus.dtype, (*focus.shape[:-1], width)) for width in widths]
    operands.insert(scope.draws.between(0, len(operands)), focus)
    return Call(tuple(operands), {"inputdimensions": tuple(operand.shape[-1] for operand in operands)})


def _infer_vectorizer(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    rows = focus.shape[0] if focus.rank > 1 else 1
    return (TensorType(F32, (rows, sum(operand.shape[-1] for operand in call.present))),)


def _sample_imputer(scope: Scope, focus: Operand) -> Call:
    """One value for all columns, or one for each; what it replaces may be NaN."""
    draws, name = scope.draws, "float" if focus.dtype is F32 else "int64"
    count = focus.shape[-1] if is_filled(focus.shape[-1:]) and draws.chance(0.5) else 1
    filling = [draws.pick(keys_of(scope, focus.dtype, 3)) for _ in range(count)]
    replaced = draws.pick((0, 1, -1, 2))
    attributes = {f"imputed_value_{name}s": listed(focus.dtype, filling)}
    if draws.chance(0.8):
        is_nan = focus.dtype is F32 and draws.chance(0.3)
        attributes[f"replaced_value_{name}"] = (
            math.nan if is_nan else float(replaced) if focus.dtype is F32 else replaced
        )
    return Call((focus,), attributes)


def _bound_imputer(call: Call) -> tuple[Range, ...]:
    filling = (*call.floats_of("imputed_value_floats"), *call.tuple_of("imputed_value_int64s", ()))
    return (hull((call.operand(0).range, Range(min(filling), max(filling)))),)


def _sample_normalizer(scope: Scope, focus: Operand) -> Call:
    """A maximum may be near zero beside other values, unless no value is negative."""
    norms = ("MAX", "L1", "L2") if focus.range.low >= 0 else ("L1", "L2")
    return Call((focus,), {"norm": scope.draws.pick(norms)})


def _bound_normalizer(call: Call) -> tuple[Range, ...]:
    return (Range(0 if call.operand(0).range.low >= 0 else -1, 1),)


def _sample_one_hot(scope: Scope, focus: Operand) -> Call:
    """What is none of the categories gives zeros: elsewhere it would have to be refused."""
    count = scope.draws.between(1, _MOST_CATEGORIES)
    name, dtype = ("cats_strings", TEXT) if focus.dtype is TEXT else ("cats_int64s", I64)
    attributes = {name: listed(dtype, keys_of(scope, dtype, count))}
    return Call((focus,), {**attributes, "zeros": 1} if scope.draws.chance(0.3) else attributes)


def _infer_one_hot(call: Call) -> tuple[TensorType, ...]:
    words = call.attributes.get("cats_strings", ())
    assert isinstance(words, tuple)
    count = len(words) or len(call.tuple_of("cats_int64s", ()))
    return (TensorType(F32, (*call.operand(0).shape, count)),)


def _sample_scaler(scope: Scope, focus: Operand) -> Call:
    """One offset and one scale for all columns, or one for each of a table."""
    draws = scope.draws
    count = focus.shape[-1] if focus.rank <= 2 and is_filled(focus.shape[-1:]) and draws.chance(0.6) else 1
    offset = tuple(draws.pick((0.0, 0.5, -1.0, 2.0)) for _ in range(count))
    return Call(
        (focus,), {"offset": offset, "scale": tuple(draws.pick((1.0, 0.5, -2.0, 0.1)) for _ in offset)}
    )


def _bound_scaler(call: Call) -> tuple[Range, ...]:
    reach = call.operand(0).range.magnitude + max(map(abs, call.floats_of("offset")))
    most = reach * max(map(abs, call.floats_of("scale")))
    return (Range(-most, most),)


_CODES = (I64, TEXT, F32, F64)
_TO_FLOATS = shaped(same_shape, lambda call: F32)


def _entry(
    name: str,
    kind: Kind,
    arithmetic: Arithmetic,
    dtypes: tuple[DType, ...],
    ranks: range = RANKS,
) -> Operator:
    name = f"ai.onnx.ml.{name}"
    return Operator(name, kind, arithmetic, dtypes, ranks=ranks, realm=DTypeFamily.ML)


OPERATORS = (
    _entry("ArrayFeatureExtractor", Kind.PART, MOVES, (*_NUMBERS, TEXT), ALONG).by(
        _sample_extractor, _infer_extractor, same_range, None
    ),
    _entry("Binarizer", Kind.COMPARE, WHOLE, (F32,)).by(_sample_binarizer, bound=inside(0, 1)),
    _entry("CategoryMapper", Kind.TEXT, WHOLE, (TEXT, I64)).by(
        _sample_mapper, _infer_mapper, _bound_mapper, None
    ),
    _entry("FeatureVectorizer", Kind.LAYOUT, Arithmetic(Rounding.NARROWING), _NUMBERS, range(1, 3)).by(
        _sample_vectorizer, _infer_vectorizer, hull_range, None
    ),
    _entry("Imputer", Kind.PART, CHOOSES, (F32, I64), ALONG).by(_sample_imputer, bound=_bound_imputer),
    _entry("LabelEncoder", Kind.PART, CHOOSES, _CODES).by(
        _sample_encoder, _infer_encoder, _bound_encoder, None
    ),
    _entry("Normalizer", Kind.NORM, SUMS_INSIDE, _NUMBERS, range(1, 3)).by(
        _sample_normalizer, _TO_FLOATS, _bound_normalizer, retyped(F32)
    ),
    _entry("OneHotEncoder", Kind.PART, WHOLE, _CODES, range(1, MAX_RANK)).by(
        _sample_one_hot, _infer_one_hot, inside(0, 1), None
    ),
    _entry("Scaler", Kind.NORM, ROUNDS, _NUMBERS, ALONG).by(
        _sample_scaler, _TO_FLOATS, _bound_scaler, retyped(F32)
    ),
)
