"""Whether a value is of the type that is declared for it; only what is fixed statically counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, TypeProto

from corpus.onnx.types import dtype_name, element_type
from corpus.values import Tensor, Value


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`kind` is `dtype` or `shape`."""

    kind: str
    actual: str
    declared: str

    def __str__(self) -> str:
        return f"{self.actual} where its inputs fix {self.declared}"


def contradiction(declared: TypeProto.Tensor, value: Value) -> Contradiction | None:
    """Say how a tensor contradicts its declared type; None if it does not, or if it is no tensor."""
    if not isinstance(value, np.ndarray):
        return None
    element = _element(value)
    if element is not None and declared.elem_type and element != declared.elem_type:
        return Contradiction("dtype", dtype_name(element), dtype_name(declared.elem_type))
    if not declared.HasField("shape") or _fits(declared, value.shape):
        return None
    dims = (
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in declared.shape.dim
    )
    return Contradiction("shape", _shape_text(value.shape), _shape_text(dims))


def keeps_to(declared: TypeProto.Tensor, value: Value, kind: str) -> bool:
    """Return whether a tensor has the declared `shape`, or is of the whole type where `kind` is `dtype`.

    The reference evaluator's dtypes are often numpy's own, its shapes are to be trusted.
    """
    if not isinstance(value, np.ndarray):
        return False
    return _fits(declared, value.shape) if kind == "shape" else contradiction(declared, value) is None


def outputs_contradict(model: ModelProto, outputs: Mapping[str, Value]) -> bool:
    """Return whether an output contradicts the model's own declaration of it."""
    return any(
        contradiction(output.type.tensor_type, outputs.get(output.name)) is not None
        for output in model.graph.output
        if output.type.HasField("tensor_type")
    )


def _element(value: Tensor) -> int | None:
    try:
        return element_type(value.dtype)
    except KeyError:
        return None


def _fits(declared: TypeProto.Tensor, shape: tuple[int, ...]) -> bool:
    dims = declared.shape.dim
    return len(dims) == len(shape) and all(
        not dim.HasField("dim_value") or dim.dim_value == size for dim, size in zip(dims, shape, strict=True)
    )


def _shape_text(dims: Iterable[object]) -> str:
    return f"[{','.join(map(str, dims))}]"
