"""Whether what inference says, and what a run gives, is what an operator's rules said."""

import numpy as np
import onnx

from corpus.values import Value
from oracles.relation.types import (
    SEQUENCES,
    Range,
    TensorType,
    dtype_of,
    element,
)


def inference_agrees(inferred: onnx.TypeProto, own: TensorType) -> bool:
    """Whether inference says the same, as far as it says anything."""
    dims = list(own.shape)
    if inferred.HasField("sequence_type"):
        inferred, dims = inferred.sequence_type.elem_type, dims[1:]
        if not own.shape[0]:
            dims = None
    elif inferred.HasField("optional_type"):
        inferred = inferred.optional_type.elem_type
    if not inferred.HasField("tensor_type"):
        return True
    tensor = inferred.tensor_type
    if tensor.elem_type != element(own.dtype):
        return False
    if not tensor.HasField("shape") or dims is None:
        return True
    found = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    return len(found) == len(dims) and all(a in (None, b) for a, b in zip(found, dims, strict=True))


def value_agrees(value: Value, own: TensorType) -> bool:
    """Whether the value of a run has the type."""
    if own.dtype in SEQUENCES:
        assert isinstance(value, list)
        part = TensorType(element(own.dtype), own.shape[1:])
        return len(value) == own.shape[0] and all(value_agrees(item, part) for item in value)
    assert isinstance(value, np.ndarray)
    return value.shape == own.shape and dtype_of(value) is element(own.dtype)


def numbers(value: Value) -> np.ndarray:
    """Every number in the value, as float64; none of text."""
    parts = value if isinstance(value, list) else [value]
    found = [
        part.astype(np.float64).reshape(-1)
        for part in parts
        if part is not None and part.dtype.kind not in "UO"
    ]
    return np.concatenate(found) if found else np.zeros(0)


def is_within(value: Value, bounds: Range) -> bool:
    """Whether all numbers are finite and lie in the bounds, rounding aside."""
    found = numbers(value)
    if not found.size:
        return True
    slack = 1e-2 * max(1.0, float(np.abs(found).max()))
    inside = bounds.low - slack <= found.min() and found.max() <= bounds.high + slack
    return bool(np.isfinite(found).all() and inside)
