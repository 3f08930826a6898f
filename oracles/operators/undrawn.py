"""Operators that no program draws: those that patterns alone hold, and those of which we know how they round.

An operator of another domain that is not here is as unknown as one that is said to be.
"""

from collections.abc import Mapping

from onnx import NodeProto

from oracles.relation.arithmetic import (
    ROUNDS,
    ROUNDS_ABOUT_ONE,
    SUMS_INSIDE,
    UNKNOWN,
    WHOLE,
    Arithmetic,
    Rounding,
    of_window,
    text_attribute,
)
from oracles.relation.open_checks import TWICE
from oracles.relation.operator import Operator
from oracles.relation.program import Call, Kind
from oracles.relation.types import ANYTHING, I64, TEXT, Range, TensorType


def _encoded(call: Call) -> tuple[TensorType, ...]:
    values = TEXT if "values_strings" in call.attributes else I64
    return (TensorType(values, call.operand(0).shape),)


def _encoded_range(call: Call) -> tuple[Range, ...]:
    labels = [*call.tuple_of("values_int64s", ()), call.integer("default_int64", 0)]
    is_text = "values_strings" in call.attributes
    return (ANYTHING if is_text else Range(min(labels), max(labels)),)


OPERATORS = (
    Operator(
        "ai.onnx.ml.LabelEncoder",
        Kind.PART,
        WHOLE,
        (I64, TEXT),
        infer=_encoded,
        bound=_encoded_range,
        is_drawn=False,
    ),
)
"""Each by what a pattern needs of it: element types, the type rule and the bounds of its result."""

_MODES: Mapping[str, Arithmetic] = {
    "nearest": Arithmetic(Rounding.NOTHING, reads_axes=True),
    "linear": Arithmetic(Rounding.INSIDE, terms=of_window, reads_axes=True),
}
"""What an upsampling makes of its corners."""


def _upsampling(node: NodeProto) -> Arithmetic:
    """The row of an upsampling: it weighs corners if its `mode` says so."""
    return _MODES.get(text_attribute(node, "mode", "nearest"), UNKNOWN)


def _of(domain: str, arithmetic: Arithmetic, names: str) -> dict[str, Arithmetic]:
    return {f"{domain}.{name}" if domain else name: arithmetic for name in names.split()}


UNDRAWN: Mapping[str, Arithmetic] = {
    **_of(
        "",
        WHOLE,
        """
        Constant SequenceMap TensorScatter
    """,
    ),
    **_of(
        "",
        ROUNDS,
        """
        SwiGLU Swish
    """,
    ),
    **_of(
        "",
        SUMS_INSIDE,
        """
        CausalConvWithState CumProd LinearAttention MeanVarianceNormalization
    """,
    ),
    **_of(
        "",
        UNKNOWN,
        """
        ImageDecoder
    """,
    ),
    **_of(
        "com.microsoft",
        WHOLE,
        """
        IsAllFinite MulInteger ReduceSumInteger RemovePadding RestorePadding TorchEmbedding
    """,
    ),
    **_of(
        "com.microsoft",
        ROUNDS,
        """
        BiasAdd BiasDropout QLinearReduceMean
    """,
    ),
    **_of(
        "com.microsoft",
        ROUNDS_ABOUT_ONE,
        """
        BiasSplitGelu
    """,
    ),
    **_of(
        "com.microsoft",
        SUMS_INSIDE,
        """
        BiasSoftmax ComplexMul ComplexMulConj DecoderAttention DecoderMaskedSelfAttention
        GemmFastGelu GroupNorm Irfft MatMulFpQ4 NhwcConv NhwcFusedConv PackedAttention
        PackedMultiHeadAttention Rfft SkipGroupNorm SparseToDenseMatMul
    """,
    ),
    **_of(
        "ai.onnx.ml",
        WHOLE,
        """
        ArrayFeatureExtractor Binarizer CategoryMapper DictVectorizer FeatureVectorizer Imputer
        OneHotEncoder ZipMap
    """,
    ),
    **_of(
        "ai.onnx.ml",
        ROUNDS,
        """
        CastMap Scaler
    """,
    ),
    **_of(
        "ai.onnx.ml",
        SUMS_INSIDE,
        """
        LinearClassifier LinearRegressor Normalizer SVMClassifier SVMRegressor
    """,
    ),
    **_of(
        "ai.onnx.ml",
        UNKNOWN,
        """
        TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor
    """,
    ),
    **_of(
        "ai.onnx.preview",
        UNKNOWN,
        """
        FlexAttention
    """,
    ),
    **_of(
        "ai.onnx.preview.training",
        UNKNOWN,
        """
        Adagrad Adam Gradient Momentum
    """,
    ),
    "Bernoulli": Arithmetic(Rounding.RESULT, is_random=True),
    "BitCast": Arithmetic(Rounding.NOTHING, reads_bits=True),
    "Multinomial": Arithmetic(Rounding.RESULT, is_random=True),
    "RandomNormal": Arithmetic(Rounding.RESULT, is_random=True, typed_by="dtype"),
    "RandomNormalLike": Arithmetic(Rounding.RESULT, is_random=True),
    "RandomUniform": Arithmetic(Rounding.RESULT, is_random=True, typed_by="dtype"),
    "RandomUniformLike": Arithmetic(Rounding.RESULT, is_random=True),
    "Scatter": Arithmetic(Rounding.NOTHING, opens=TWICE),
    "Upsample": Arithmetic(Rounding.NOTHING, reads_axes=True, varies=_upsampling),
}
"""Of com.microsoft those that onnxruntime 1.31 declares and somebody has looked at."""
