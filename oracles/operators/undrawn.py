"""Operators that no program draws, of which we know how they round.

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


_RANDOM = Arithmetic(Rounding.RESULT, is_random=True)
_TYPED_RANDOM = Arithmetic(Rounding.RESULT, is_random=True, typed_by="dtype")

UNDRAWN: Mapping[str, Arithmetic] = {
    **_of("", WHOLE, "Constant SequenceMap TensorScatter"),
    **_of("", ROUNDS, "SwiGLU Swish"),
    **_of("", SUMS_INSIDE, "CausalConvWithState CumProd LinearAttention MeanVarianceNormalization"),
    **_of("", UNKNOWN, "ImageDecoder"),
    **_of("", _RANDOM, "Bernoulli Multinomial RandomNormalLike RandomUniformLike"),
    **_of("", _TYPED_RANDOM, "RandomNormal RandomUniform"),
    **_of(
        "com.microsoft",
        WHOLE,
        "IsAllFinite MulInteger ReduceSumInteger RemovePadding RestorePadding TorchEmbedding",
    ),
    **_of("com.microsoft", ROUNDS, "BiasAdd BiasDropout QLinearReduceMean"),
    **_of("com.microsoft", ROUNDS_ABOUT_ONE, "BiasSplitGelu"),
    **_of(
        "com.microsoft",
        SUMS_INSIDE,
        "BiasSoftmax ComplexMul ComplexMulConj DecoderAttention DecoderMaskedSelfAttention GemmFastGelu"
        " GroupNorm Irfft MatMulFpQ4 NhwcConv NhwcFusedConv PackedAttention PackedMultiHeadAttention Rfft"
        " SkipGroupNorm SparseToDenseMatMul",
    ),
    **_of("ai.onnx.ml", WHOLE, "DictVectorizer ZipMap"),
    **_of("ai.onnx.ml", ROUNDS, "CastMap"),
    **_of("ai.onnx.preview", UNKNOWN, "FlexAttention"),
    **_of("ai.onnx.preview.training", UNKNOWN, "Adagrad Adam Gradient Momentum"),
    "BitCast": Arithmetic(Rounding.NOTHING, reads_bits=True),
    "Scatter": Arithmetic(Rounding.NOTHING, opens=TWICE),
    "Upsample": Arithmetic(Rounding.NOTHING, reads_axes=True, varies=_upsampling),
}
"""Of com.microsoft those that onnxruntime 1.31 declares and somebody has looked at."""
