"""Operators that no program draws: those that patterns alone hold, and those of which we know how they round.

An operator of another domain that is not here is as unknown as one that is said to be.
"""

from collections.abc import Mapping

from onnx import NodeProto

from oracles.relation.arithmetic import (
    MOVES,
    ROUNDS,
    ROUNDS_ABOUT_ONE,
    SUMS_INSIDE,
    UNKNOWN,
    WHOLE,
    Arithmetic,
    Rounding,
    of_window,
    symmetric,
    text_attribute,
)
from oracles.relation.open_checks import TWICE
from oracles.relation.operator import Operator
from oracles.relation.program import Call, Kind
from oracles.relation.types import F32, Range, TensorType


def _attended(call: Call) -> tuple[TensorType, ...]:
    """A third of what the weights compute is the values, which have the result's width."""
    focus, weights = call.operand(0), call.operand(1)
    return (TensorType(focus.dtype, (*focus.shape[:2], weights.shape[1] // 3)),)


def _attended_range(call: Call) -> tuple[Range, ...]:
    """A result lies among the values: rows of the input by the weights, and a bias."""
    focus, weights, bias = (call.operand(index) for index in range(3))
    product = focus.range.magnitude * weights.range.magnitude * focus.shape[2]
    return (symmetric(product + bias.range.magnitude),)


OPERATORS = (
    Operator(
        "com.microsoft.Attention",
        Kind.LINEAR,
        SUMS_INSIDE,
        (F32,),
        infer=_attended,
        bound=_attended_range,
        ranks=range(3, 4),
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
        IsAllFinite MatMulInteger16 MaxpoolWithMask MulInteger MurmurHash3 Pad ReduceSumInteger
        RemovePadding RestorePadding Tokenizer TorchEmbedding Unique
    """,
    ),
    **_of(
        "com.microsoft",
        MOVES,
        """
        GatherND
    """,
    ),
    **_of(
        "com.microsoft",
        ROUNDS,
        """
        BiasAdd BiasDropout GatherBlockQuantized QLinearConv QLinearReduceMean ScaledSiLU
    """,
    ),
    **_of(
        "com.microsoft",
        ROUNDS_ABOUT_ONE,
        """
        BiasSplitGelu Gelu
    """,
    ),
    **_of(
        "com.microsoft",
        SUMS_INSIDE,
        """
        BiasSoftmax CausalConvWithState ComplexMul ComplexMulConj ConvTransposeWithDynamicPads
        CropAndResize DecoderAttention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention
        EmbedLayerNormalization GemmFastGelu GroupNorm GroupQueryAttention Inverse Irfft
        LinearAttention MatMulBnb4 MatMulFpQ4 NhwcConv NhwcFusedConv PackedAttention
        PackedMultiHeadAttention Rfft SkipGroupNorm SparseToDenseMatMul
    """,
    ),
    **_of(
        "ai.onnx.ml",
        WHOLE,
        """
        DictVectorizer ZipMap
    """,
    ),
    **_of(
        "ai.onnx.ml",
        ROUNDS,
        """
        CastMap
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
    "com.microsoft.DynamicQuantizeLSTM": Arithmetic(Rounding.INSIDE, quantises=True),
    "com.microsoft.GridSample": Arithmetic(Rounding.INSIDE, terms=of_window),
}
"""Of com.microsoft those that onnxruntime 1.31 declares and somebody has looked at."""
