"""What several backends share in the worker: Python 3.8 syntax, numpy and the framework only."""

from __future__ import annotations

import base64
import time
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np

ROUNDS, SECONDS = 50, 0.1
"""A timed program runs so often before its last run, or until it has taken so many CPU seconds; but once."""


def rounds(settings: dict[str, Any], enter: Callable[[str], None]) -> Iterator[None]:
    """Yield for each run before the last, with the setting `warm`; each is an execution of its own."""
    start = time.thread_time()
    for _ in range(ROUNDS if settings.get("warm") else 0):
        yield
        enter("executed")
        if time.thread_time() > start + SECONDS:
            return


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
