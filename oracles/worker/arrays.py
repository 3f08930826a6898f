"""Arrays as a document of a graph keeps them: dtype, shape, base64 of the bytes."""

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
