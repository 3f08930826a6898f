"""ONNX element types beside numpy's: the one table of dtypes.

Types that numpy lacks are ml_dtypes' (one element a byte, packed nowhere in memory); ONNX packs 2-, 4- and
6-bit elements in `raw_data`, which `packed_bytes` accounts for. Strings are numpy's `U`.
"""

from __future__ import annotations

from collections.abc import Iterable

import ml_dtypes
import numpy as np
from onnx import TypeProto

from corpus.values import InputType

DTYPES: dict[int, np.dtype] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    8: np.dtype(np.str_),
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    14: np.dtype(np.complex64),
    15: np.dtype(np.complex128),
    16: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype(ml_dtypes.float8_e4m3fn),
    18: np.dtype(ml_dtypes.float8_e4m3fnuz),
    19: np.dtype(ml_dtypes.float8_e5m2),
    20: np.dtype(ml_dtypes.float8_e5m2fnuz),
    21: np.dtype(ml_dtypes.uint4),
    22: np.dtype(ml_dtypes.int4),
    23: np.dtype(ml_dtypes.float4_e2m1fn),
    24: np.dtype(ml_dtypes.float8_e8m0fnu),
    25: np.dtype(ml_dtypes.uint2),
    26: np.dtype(ml_dtypes.int2),
    27: np.dtype(ml_dtypes.float6_e2m3fn),
    28: np.dtype(ml_dtypes.float6_e3m2fn),
}
ELEMENT_TYPES: dict[np.dtype, int] = {dtype: code for code, dtype in DTYPES.items()}
STRING = 8
_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}


def element_type(dtype: np.dtype) -> int:
    """The ONNX element type of a numpy dtype; KeyError when it has none."""
    if dtype.kind in "UO":
        return STRING
    return ELEMENT_TYPES[dtype.newbyteorder("=")]


def dtype_name(code: int) -> str:
    """A person's word for an element type, for example `float32`, `bfloat16`, `string`."""
    if code == STRING:
        return "string"
    return DTYPES[code].name if code in DTYPES else f"element type {code}"


def count(dims: Iterable[int]) -> int:
    """The number of elements; exact, however absurd the dims."""
    total = 1
    for dim in dims:
        total *= max(dim, 0)
    return total


def packed_bytes(code: int, dims: Iterable[int]) -> int | None:
    """The length of `raw_data` or of external data; None for strings and unknown types."""
    if code == STRING or code not in DTYPES:
        return None
    bits = _BITS.get(code, DTYPES[code].itemsize * 8)
    return (count(dims) * bits + 7) // 8


def memory_bytes(code: int, dims: Iterable[int]) -> int:
    """The least a tensor takes in memory; a string counts as one byte, an unknown type as nothing."""
    if code == STRING:
        return count(dims)
    return packed_bytes(code, dims) or 0


def declared_shape(tensor: TypeProto.Tensor) -> tuple[int | str | None, ...] | None:
    """The declared shape: numbers, names of symbolic dims, None where unknown; None without a rank.

    A negative size is what old exporters write for "unknown".
    """
    if not tensor.HasField("shape"):
        return None
    dims: list[int | str | None] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value"):
            dims.append(dim.dim_value if dim.dim_value >= 0 else None)
        else:
            dims.append(dim.dim_param or None)
    return tuple(dims)


def input_type(declared: TypeProto, required: bool = True) -> InputType | None:
    """The arrays that a declared type admits; None for sparse tensors or an unknown type."""
    optional = declared.WhichOneof("value") == "optional_type"
    inner = declared.optional_type.elem_type if optional else declared
    sequence = inner.WhichOneof("value") == "sequence_type"
    element = inner.sequence_type.elem_type if sequence else inner
    if inner.WhichOneof("value") == "map_type" and not optional:
        return _map_type(inner.map_type, required)
    if element.WhichOneof("value") != "tensor_type" or element.tensor_type.elem_type not in DTYPES:
        return None
    tensor = element.tensor_type
    return InputType(DTYPES[tensor.elem_type], declared_shape(tensor), sequence, optional, required)


def _map_type(declared: TypeProto.Map, required: bool) -> InputType | None:
    values = declared.value_type.tensor_type.elem_type
    if declared.key_type not in DTYPES or values not in DTYPES:
        return None
    return InputType(DTYPES[values], (None,), required=required, key=DTYPES[declared.key_type])
