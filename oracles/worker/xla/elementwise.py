"""Lowerings to jax of operators that compute each element by itself, and of conversions."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from onnx import TensorProto, helper

from oracles.worker.onnx import Function, Lowering, Op, folded, plain


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


def _clip(op: Op) -> Function:
    op.must(op.opset >= 11, "this opset")

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


def _cast(op: Op) -> Function:
    dtype = dtype_of(op.get("to"))
    op.must(op.get("to") != TensorProto.STRING, "strings")
    op.must(not dtype.name.startswith("float8"), "floats of eight bits")
    return lambda x: x != 0 if dtype == jnp.bool_ else x.astype(dtype)


def number(op: Op, name: str) -> Any:
    """A float attribute in the dtype of the operand."""
    return jnp.asarray(op.get(name), op.values[0].dtype)


def elu(x: Any, alpha: Any) -> Any:
    """x, and alpha * (exp(x) - 1) below zero."""
    return jnp.where(x < 0, alpha * jnp.expm1(jnp.minimum(x, 0)), x)


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
    "Celu": lambda op: lambda x: elu(x / number(op, "alpha"), 1) * number(op, "alpha"),
    "Selu": lambda op: lambda x: number(op, "gamma") * elu(x, number(op, "alpha")),
    "LeakyRelu": lambda op: lambda x: jnp.where(x < 0, number(op, "alpha") * x, x),
    "PRelu": plain(lambda x, slope: jnp.where(x < 0, slope * x, x)),
    "ThresholdedRelu": lambda op: lambda x: jnp.where(x > number(op, "alpha"), x, jnp.zeros_like(x)),
    "Softsign": plain(lambda x: x / (1 + jnp.abs(x))),
    "HardSigmoid": lambda op: lambda x: jnp.clip(number(op, "alpha") * x + number(op, "beta"), 0, 1),
    "HardSwish": plain(lambda x: x * jnp.clip(x / 6 + jnp.asarray(0.5, x.dtype), 0, 1)),
    "Clip": _clip,
    "Cast": _cast,
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
}
