"""Lowerings to jax of operators that compute each element by itself, and of conversions."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from onnx import TensorProto, helper

from oracles.worker.onnx import Function, Lowering, Op, folded, plain
from oracles.worker.xla.traced import TracedOp


def is_float(x: Any) -> bool:
    """Say whether an array holds floats, the short ones too."""
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def divide(left: Any, right: Any) -> Any:
    """Divide; integers are rounded towards zero, as XLA does itself."""
    return lax.div(*jnp.broadcast_arrays(left, right))


def power(left: Any, right: Any) -> Any:
    """x to the y, in the dtype of x; integers by a float exponent in float64."""
    if is_float(left):
        return jnp.power(left, right.astype(left.dtype))
    if is_float(right):
        return jnp.power(left.astype(jnp.float64), right.astype(jnp.float64)).astype(left.dtype)
    return jnp.power(left, right.astype(left.dtype))


def _clip(op: TracedOp) -> Function:
    if op.opset < 11:
        low, high = np.float32(op.get("min")), np.float32(op.get("max"))
        return lambda x: jnp.minimum(jnp.maximum(x, low.astype(x.dtype)), high.astype(x.dtype))

    def run(x: Any, low: Any = None, high: Any = None) -> Any:
        x = x if low is None else jnp.maximum(x, jnp.reshape(low, ()))
        return x if high is None else jnp.minimum(x, jnp.reshape(high, ()))

    return run


def _is_inf(op: Op) -> Function:
    signs = [
        value for name, value in (("negative", -math.inf), ("positive", math.inf)) if op.get(f"detect_{name}")
    ]
    return lambda x: sum((x == jnp.asarray(each, x.dtype) for each in signs), jnp.zeros_like(x, jnp.bool_))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)) without an overflow."""
    return jnp.log1p(jnp.exp(-jnp.abs(x))) + jnp.maximum(x, 0)


def dtype_of(code: int) -> Any:
    """The numpy dtype of an element type of ONNX's."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(code))


def convert(x: Any, dtype: Any, saturates: bool = True) -> Any:
    """An array in another element type; what a short float cannot hold becomes its largest number."""
    if dtype == jnp.bool_:
        return x != 0
    is_short = dtype.itemsize == 1 and jnp.issubdtype(dtype, jnp.floating)
    if is_short and saturates and is_float(x):
        most = jnp.asarray(jnp.finfo(dtype).max, jnp.float32)
        wide = x.astype(jnp.float64 if x.dtype.itemsize == 8 else jnp.float32)
        return jnp.clip(wide, -most, most).astype(dtype)
    return x.astype(dtype)


def _cast(op: TracedOp) -> Function:
    op.must(op.get("to") != TensorProto.STRING, "strings")
    dtype = dtype_of(op.get("to"))
    op.must(dtype.name != "float8_e8m0fnu", "scales")
    return lambda x: convert(x, dtype, bool(op.get("saturate", 1)))


def _cast_like(op: TracedOp) -> Function:
    return lambda x, like: convert(x, np.dtype(like.dtype), bool(op.get("saturate", 1)))


def along(op: Op, scale: Any, rank: int) -> Function:
    """What spreads a scale or zero point over a quantised tensor: one number, one an axis, or blocks."""
    axis, block = op.get("axis", 1), op.get("block_size", 0)

    def spread(each: Any, like: Any) -> Any:
        if each is None or each.ndim == 0 or (each.size == 1 and each.ndim == 1):
            return None if each is None else jnp.reshape(each, ())
        if each.ndim == 1:
            return jnp.reshape(each, [-1 if i == axis % rank else 1 for i in range(rank)])
        size = block or -(-like.shape[axis] // each.shape[axis])
        return lax.slice_in_dim(jnp.repeat(each, size, axis), 0, like.shape[axis], axis=axis)

    return spread


def quantized(x: Any, scale: Any, zero: Any, dtype: Any, spread: Function, saturates: bool = True) -> Any:
    """Round x / scale to even, add the zero point and saturate."""
    y = x.astype(scale.dtype) / spread(scale, x) if scale.dtype != x.dtype else x / spread(scale, x)
    if jnp.issubdtype(dtype, jnp.floating):
        return convert(y, dtype, saturates)
    shift = 0 if zero is None else spread(zero, x).astype(jnp.float32)
    y = lax.round(y.astype(jnp.float32), lax.RoundingMethod.TO_NEAREST_EVEN) + shift
    limits = jnp.iinfo(dtype)
    return jnp.clip(y, int(limits.min), int(limits.max)).astype(jnp.int32).astype(dtype)


def _quantize(op: TracedOp) -> Function:
    zero, code = op.values[2] if op.has(2) else None, op.get("output_dtype", 0)
    dtype = np.dtype(zero.dtype) if zero is not None else dtype_of(code) if code else np.dtype("uint8")
    spread = along(op, op.values[1], op.values[0].ndim)
    return lambda x, scale, zero=None: quantized(x, scale, zero, dtype, spread, bool(op.get("saturate", 1)))


def dequantized(x: Any, scale: Any, zero: Any, spread: Function) -> Any:
    """(x - zero) * scale, in the dtype of the scale."""
    wide = x.astype(jnp.int32) if not is_float(x) else x.astype(jnp.float32)
    wide = wide if zero is None else wide - spread(zero, x).astype(wide.dtype)
    return (wide.astype(jnp.float32) * spread(scale, x).astype(jnp.float32)).astype(scale.dtype)


def _dequantize(op: TracedOp) -> Function:
    spread = along(op, op.values[1], op.values[0].ndim)
    return lambda x, scale, zero=None: dequantized(x, scale, zero, spread)


def number(op: Op, name: str) -> Any:
    """A float attribute in the dtype of the operand."""
    return jnp.asarray(op.get(name), op.values[0].dtype)


def elu(x: Any, alpha: Any) -> Any:
    """x, and alpha * (exp(x) - 1) below zero."""
    return jnp.where(x < 0, alpha * jnp.expm1(jnp.minimum(x, 0)), x)


def hard_sigmoid(x: Any, alpha: Any, beta: Any) -> Any:
    """alpha * x + beta within 0 and 1."""
    return jnp.clip(jnp.asarray(alpha, x.dtype) * x + jnp.asarray(beta, x.dtype), 0, 1)


def shrink(op: Op) -> Function:
    """The function of ONNX's Shrink with these attributes; integers are computed in float64."""
    bias, limit = op.get("bias"), op.get("lambd")

    def run(x: Any) -> Any:
        wide = x if is_float(x) else x.astype(jnp.float64)
        outer = jnp.where(wide < -limit, wide + bias, jnp.where(wide > limit, wide - bias, 0))
        return outer.astype(x.dtype)

    return run


def _bit_cast(op: TracedOp) -> Function:
    dtype = dtype_of(op.get("to"))
    op.must(dtype.itemsize == op.values[0].dtype.itemsize, "another width")
    return lambda x: lax.bitcast_convert_type(x, dtype)


_SAME_NAME = """
    Abs Neg Exp Log Sqrt Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Floor Ceil Sign
"""

ELEMENTWISE: dict[str, Lowering] = {
    **{name: plain(getattr(lax, name.lower())) for name in _SAME_NAME.split()},
    "Abs": plain(jnp.abs),
    "Sign": plain(jnp.sign),
    "Sigmoid": plain(lax.logistic),
    "Round": plain(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
    "Reciprocal": plain(lambda x: 1 / x),
    "Relu": plain(lambda x: jnp.maximum(x, jnp.zeros((), x.dtype))),
    "IsNaN": plain(lambda x: x != x),
    "IsInf": _is_inf,
    "Identity": plain(lambda x: x),
    "Not": plain(jnp.logical_not),
    "Softplus": plain(softplus),
    "Mish": plain(lambda x: x * jnp.tanh(softplus(x))),
    "Gelu": lambda op: lambda x: nn.gelu(x, approximate=op.get("approximate") == b"tanh"),
    "Elu": lambda op: lambda x: elu(x, number(op, "alpha")),
    "Celu": lambda op: (
        lambda x: jnp.maximum(x, 0) + jnp.minimum(0, number(op, "alpha") * jnp.expm1(x / number(op, "alpha")))
    ),
    "Selu": lambda op: lambda x: number(op, "gamma") * elu(x, number(op, "alpha")),
    "LeakyRelu": lambda op: lambda x: jnp.where(x < 0, number(op, "alpha") * x, x),
    "PRelu": plain(lambda x, slope: jnp.where(x < 0, slope * x, x)),
    "ThresholdedRelu": lambda op: lambda x: jnp.where(x > number(op, "alpha"), x, jnp.zeros_like(x)),
    "Softsign": plain(lambda x: x / (1 + jnp.abs(x))),
    "HardSigmoid": lambda op: lambda x: hard_sigmoid(x, op.get("alpha"), op.get("beta")),
    "HardSwish": plain(lambda x: x * hard_sigmoid(x, 1 / 6, 0.5)),
    "Shrink": shrink,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast_like,
    "BitCast": _bit_cast,
    "Add": plain(jnp.add),
    "Sub": plain(jnp.subtract),
    "Mul": plain(jnp.multiply),
    "Div": plain(divide),
    "Mod": lambda op: jnp.fmod if op.get("fmod") else jnp.remainder,
    "Pow": plain(power),
    "BitShift": lambda op: jnp.left_shift if op.get("direction") == b"LEFT" else jnp.right_shift,
    "BitwiseAnd": plain(jnp.bitwise_and),
    "BitwiseOr": plain(jnp.bitwise_or),
    "BitwiseXor": plain(jnp.bitwise_xor),
    "BitwiseNot": plain(jnp.bitwise_not),
    "And": plain(jnp.logical_and),
    "Or": plain(jnp.logical_or),
    "Xor": plain(jnp.logical_xor),
    "Equal": plain(jnp.equal),
    "Less": plain(jnp.less),
    "Greater": plain(jnp.greater),
    "LessOrEqual": plain(jnp.less_equal),
    "GreaterOrEqual": plain(jnp.greater_equal),
    "Where": plain(jnp.where),
    "Max": folded(jnp.maximum),
    "Min": folded(jnp.minimum),
    "Sum": folded(jnp.add),
    "Mean": plain(lambda *terms: sum(terms[1:], terms[0]) / len(terms)),
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
}
