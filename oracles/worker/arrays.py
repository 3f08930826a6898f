"""Arrays as a document of a graph keeps them (dtype, shape, base64 of the bytes), and made of other sizes."""

import base64
from typing import Any

import numpy as np


def encoded_array(array: Any) -> list[Any]:
    """Write an array as [dtype, shape, base64]."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return [array.dtype.name, list(array.shape), data]


def decoded_array(dtype: str, shape: list[int], data: str) -> Any:
    """The array; the types that numpy lacks are ml_dtypes' own."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        import ml_dtypes

        kind = np.dtype(getattr(ml_dtypes, dtype))
    return np.frombuffer(bytearray(base64.b64decode(data)), kind).reshape(shape)


def literal(array: Any, bits: bool = False) -> str:
    """An array as an expression of numpy; with `bits` types that numpy lacks as unsigned numbers."""
    view, name = "", array.dtype.name
    if array.dtype.isbuiltin != 1:
        array = array.view(f"u{array.dtype.itemsize}")
        view, name = "" if bits else f'.view("{name}")', array.dtype.name
    text = ", ".join(str(each) for each in array.reshape(-1))
    shape = "" if array.ndim == 1 else f".reshape({array.shape})"
    return f'np.array([{text}], "{name}"){shape}{view}'


def resized(value: Any, shape: Any) -> Any:
    """A value of another shape, `(type name, bits)` too; without a shape the value itself."""
    if shape is None:
        return value
    return (value[0], with_shape(value[1], shape)) if isinstance(value, tuple) else with_shape(value, shape)


def with_shape(value: Any, shape: Any) -> Any:
    """The first places of an array along each axis, or all of them again and again; zeros if it has none."""
    if not value.size:
        return np.zeros(shape, value.dtype)
    return value[np.ix_(*(np.arange(size) % value.shape[axis] for axis, size in enumerate(shape)))]
