"""Operators of torch itself in ONNX programs: their operator set, and what the judge has to know of them.

A node of this operator set is called as the operator of `torch.ops.aten` is: its inputs are the tensors, its
attributes the other arguments by their names. Only torch's own targets run such a program. No name here is
one of ONNX's, all of which begin with a capital.
"""

from __future__ import annotations

_MOVED = """
    channel_shuffle chunk constant_pad_nd diag_embed diagonal embedding flatten flip gather im2col
    index_copy index_fill index_select masked_fill movedim narrow permute pixel_shuffle pixel_unshuffle
    reflection_pad1d reflection_pad2d repeat repeat_interleave replication_pad1d replication_pad2d roll
    rot90 scatter select slice split stack swapaxes take take_along_dim tile tril triu unbind unfold
    upsample_nearest2d
"""
_CHOSEN = """
    all amax amin aminmax any bitwise_and bitwise_or bitwise_xor clamp clamp_max clamp_min eq fmax fmin ge
    isfinite isneginf isposinf logical_and logical_not logical_or logical_xor lt max maximum min minimum
    nan_to_num ne positive signbit
"""
_WHOLE = """
    argmax argmin bucketize copysign count_nonzero cummax cummin floor_divide fmod frac hardshrink
    hardtanh heaviside kthvalue ldexp max_pool2d_with_indices median mode nanmedian nextafter relu6
    searchsorted sgn sort threshold topk trunc
"""
DEFINED = frozenset((_MOVED + _CHOSEN).split())
"""Those whose handling of NaN and infinity is defined."""

EXACT = DEFINED | frozenset(_WHOLE.split())
"""Those that give back values of their inputs, whole numbers, or what is exact: nothing to round."""

_LINEAR = """
    adaptive_avg_pool2d add addbmm addcdiv addcmul addmm addmv addr avg_pool2d baddbmm bmm cumsum dot
    index_add inner lerp mean mm mv nansum scatter_add scatter_reduce sum upsample_bilinear2d
"""
LINEAR = frozenset(_LINEAR.split())
"""Those that give the sum of the magnitudes of their terms when they get magnitudes."""

_NONLINEAR = """
    cdist cosine_similarity cumprod group_norm huber_loss l1_loss layer_norm linalg_vector_norm
    logcumsumexp logsumexp mse_loss pairwise_distance prod renorm rms_norm smooth_l1_loss std std_mean var
    var_mean
"""
NONLINEAR = frozenset(_NONLINEAR.split())
"""Those that sum inside: what that does to an element is bounded by the greatest one of the result."""

LOGARITHMIC = frozenset(["logcumsumexp", "logsumexp"])
"""Those of them whose result is the logarithm of a sum."""

_SHIFTED = """
    digamma elu erfc hardsigmoid lgamma log_sigmoid logaddexp logaddexp2 logit mish silu sinc softplus
    special_bessel_j0 special_entr special_erfcx special_i0e special_i1 special_i1e special_log_ndtr
    special_ndtr special_ndtri special_xlog1py softshrink xlogy
"""
SHIFTED = frozenset(_SHIFTED.split())
"""Those that may pass zero on the way of larger numbers: an error inside is an absolute one."""
