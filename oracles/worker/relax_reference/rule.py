"""What the rules of the golden reference share: their table's type, axes, and which forms they leave out."""

import ast
import math
import operator
from typing import Any, Callable, Dict, Mapping, Sequence  # noqa: UP035 (Python 3.8)  # noqa: UP035 (Python 3.8)

import numpy as np

Args = Sequence[Any]
Attrs = Mapping[str, Any]
Rule = Callable[[Args, Attrs], Any]
"""From a call's arguments and attributes to its result: an array, or a tuple of arrays."""

Rules = Dict[str, Rule]  # noqa: UP006 (Python 3.8)


class NotKnown(NotImplementedError):
    """An operator, or a form of it, that the reference does not speak."""


class LeftOpen(NotKnown):
    """An operand for which an operator may give anything, such as an index outside; it says which."""


def plain(function: Callable[..., Any]) -> Rule:
    """A rule that has no attributes."""
    return lambda args, attrs: function(*args)


def is_float(array: Any) -> bool:
    """Say whether the elements are floats."""
    return bool(np.asarray(array).dtype.kind == "f")


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from the front."""
    return axis + rank if axis < 0 else axis


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """The axes counted from the front; all where none are told."""
    return tuple(range(rank)) if axes is None else tuple(axis_of(int(each), rank) for each in axes)


def places_in(shape: Sequence[int], indices: Sequence[Any]) -> tuple[Any, ...]:
    """The indices of the first axes; NotKnown for masks, LeftOpen for one that lies outside."""
    for size, index in zip(shape, indices):  # noqa: B905 (Python 3.8)
        if index.dtype.kind not in "iu":
            raise NotKnown("a mask")
        if index.size and (index.min() < 0 or index.max() >= size):
            raise LeftOpen("an index out of bounds")
    return tuple(indices)


def element(name: str) -> Any:
    """The element type in which the reference holds values of a Relax dtype."""
    return np.dtype(np.float64) if name.startswith(("float", "bfloat")) else np.dtype(name)


def as_integer(array: Any, dtype: Any) -> Any:
    """Floats as C converts them, towards zero. Raises LeftOpen for those that do not fit."""
    if not is_float(array):
        return array.astype(dtype)
    whole, limits = np.trunc(array), np.iinfo(dtype)
    if not np.all((whole >= limits.min) & (whole < float(limits.max) + 1)):
        raise LeftOpen("a float that does not fit into the integer it becomes")
    return whole.astype(dtype)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Any) -> Any:
    """The error function; numpy has none."""
    return _erf(x) if np.size(x) else np.asarray(x)


def divide(x: Any, y: Any) -> Any:
    """Divide as C does: integers towards zero."""
    return x / y if is_float(x) else _truncated(x, y)


def _truncated(x: Any, y: Any) -> Any:
    quotient = np.abs(x.astype(object)) // np.abs(y.astype(object))
    return np.asarray(quotient * np.sign(x) * np.sign(y)).astype(x.dtype)


def floor_divide(x: Any, y: Any) -> Any:
    """Divide and round down."""
    return np.floor(x / y) if is_float(x) else np.floor_divide(x, y)


def floor_mod(x: Any, y: Any) -> Any:
    """The remainder with the sign of the divisor."""
    return x - np.floor(x / y) * y if is_float(x) else np.mod(x, y)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x)."""
    return 1.0 / (1.0 + np.exp(-x))


def gelu(x: Any) -> Any:
    """GELU by the error function."""
    return x * 0.5 * (1.0 + erf(x / math.sqrt(2.0)))


def gelu_tanh(x: Any) -> Any:
    """GELU by its tanh approximation."""
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def selu(x: Any) -> Any:
    """SELU with the constants of its paper."""
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return scale * np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1.0))


def _softplus(args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    beta, threshold = attrs["beta"], attrs["threshold"]
    scaled = args[0] * beta
    return np.where(scaled > threshold, args[0], np.log1p(np.exp(np.minimum(scaled, threshold))) / beta)


def _prelu(args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    x, alpha = args
    shape = [1] * x.ndim
    shape[attrs["axis"]] = alpha.size
    return np.where(x > 0, x, x * alpha.reshape(shape))


def _astype(args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    kind = element(attrs["dtype"])
    if kind.kind == "b":
        return args[0] != 0
    return as_integer(args[0], kind) if kind.kind in "iu" else args[0].astype(kind)


def clip(x: Any, low: Any, high: Any) -> Any:
    """Bring values into [low, high], in the dtype of x."""
    return np.minimum(np.maximum(x, np.asarray(low, x.dtype)), np.asarray(high, x.dtype))


def power(x: Any, y: Any) -> Any:
    """x to the y, floats alone: an integer power overflows too easily to be a reference."""
    if not is_float(x):
        raise NotKnown("a power of integers")
    return np.power(x, y)


def relu(x: Any) -> Any:
    """max(x, 0)."""
    return np.maximum(x, np.zeros((), x.dtype))


def absolute(x: Any) -> Any:
    """|x|; unsigned values and bools stay."""
    return x if x.dtype.kind in "ub" else np.abs(x)


_SAME_NAME = """
    add bitwise_and bitwise_not bitwise_or bitwise_xor cos cosh equal exp greater greater_equal isfinite
    isinf isnan left_shift less less_equal log logical_and logical_not logical_or logical_xor maximum
    minimum multiply negative not_equal right_shift sign sin sinh sqrt subtract tan tanh
"""
RULES: Rules = {
    **{f"relax.{name}": plain(getattr(np, name)) for name in _SAME_NAME.split()},
    "relax.abs": plain(absolute),
    "relax.acos": plain(np.arccos),
    "relax.acosh": plain(np.arccosh),
    "relax.asin": plain(np.arcsin),
    "relax.asinh": plain(np.arcsinh),
    "relax.astype": _astype,
    "relax.atan": plain(np.arctan),
    "relax.atan2": plain(np.arctan2),
    "relax.atanh": plain(np.arctanh),
    "relax.ceil": plain(lambda x: np.ceil(x) if is_float(x) else x),
    "relax.clip": plain(clip),
    "relax.divide": plain(divide),
    "relax.erf": plain(erf),
    "relax.floor": plain(lambda x: np.floor(x) if is_float(x) else x),
    "relax.floor_divide": plain(floor_divide),
    "relax.floor_mod": plain(floor_mod),
    "relax.log_add_exp": plain(np.logaddexp),
    "relax.mod": plain(np.fmod),
    "relax.nn.gelu": plain(gelu),
    "relax.nn.gelu_tanh": plain(gelu_tanh),
    "relax.nn.leakyrelu": lambda args, attrs: np.where(args[0] > 0, args[0], args[0] * attrs["alpha"]),
    "relax.nn.prelu": _prelu,
    "relax.nn.relu": plain(relu),
    "relax.nn.selu": plain(selu),
    "relax.nn.silu": plain(lambda x: x * sigmoid(x)),
    "relax.nn.softplus": _softplus,
    "relax.power": plain(power),
    "relax.round": plain(lambda x: np.rint(x) if is_float(x) else x),
    "relax.rsqrt": plain(lambda x: 1.0 / np.sqrt(x)),
    "relax.sigmoid": plain(sigmoid),
    "relax.square": plain(lambda x: x * x),
    "relax.trunc": plain(lambda x: np.trunc(x) if is_float(x) else x),
    "relax.where": plain(lambda condition, x, y: np.where(condition, x, y)),
}


def evaluated(dim: Any, sizes: Mapping[str, Any]) -> Any:
    """A dim's size, or by arrays of places those that an index map gives."""
    if not isinstance(dim, str):
        return int(dim)
    return _term(ast.parse(dim, mode="eval").body, sizes)


def _term(node: Any, sizes: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return int(str(node.value))
    if isinstance(node, ast.Name):
        if node.id not in sizes:
            raise NotKnown(f"the size of {node.id}")
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_term(node.operand, sizes)
    if isinstance(node, ast.BinOp):
        left, right = _term(node.left, sizes), _term(node.right, sizes)
        if type(node.op) in OPERATIONS:
            return OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("min", "max"):
            return (min if name == "min" else max)(*(_term(each, sizes) for each in node.args))
    raise NotKnown("a dim's arithmetic")


OPERATIONS: dict[Any, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
