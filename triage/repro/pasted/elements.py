"""ONNX's element types by name, and arrays of them in numpy alone; this text goes into a `repro.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

NAMES = """
? float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 complex64 complex128
bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz uint4 int4 float4_e2m1fn float8_e8m0fnu
uint2 int2
"""
ELEMENTS = NAMES.split()
BITS = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}


class Empty:
    """An attribute without a value: an empty list of a kind (`ints`), or a reference to a function's own."""

    def __init__(self, kind: str, refers_to: str = "") -> None:
        self.kind, self.refers_to = kind, refers_to


def array(element: str, shape: Any, values: Any) -> Any:
    """A numpy array of a list or of raw bytes; of a type that numpy lacks, its bit patterns."""
    dtype = {"string": "object", "bfloat16": "uint16"}.get(element, element)
    if ELEMENTS.index(element) > ELEMENTS.index("bfloat16"):
        dtype = "uint8"
    made = np.frombuffer(values, dtype) if isinstance(values, bytes) else np.array(values, dtype=dtype)
    return made.reshape(shape)


def packed(element: str, data: Any) -> Any:
    """Types of less than a byte: several elements to a byte, the first in the low bits."""
    width = BITS[element]
    per_byte = 8 // width
    flat = np.zeros(-(-data.size // per_byte) * per_byte, dtype="uint8")
    flat[: data.size] = data.reshape(-1) & ((1 << width) - 1)
    groups = flat.reshape(-1, per_byte)
    return np.bitwise_or.reduce(groups << (np.arange(per_byte) * width), axis=1).astype("uint8")
