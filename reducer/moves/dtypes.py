"""Plainer element types: all tensors of one type become another, further down a lattice."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from corpus.onnx.graph import walk_graphs, walk_nodes
from corpus.onnx.types import element_type
from corpus.values import Tensor, Value
from reducer.move import Hints, Move, Search
from reducer.subject.onnx.retype import change_model
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.tensors import initializer

LATTICE: Mapping[int, tuple[int, ...]] = {
    TensorProto.DOUBLE: (TensorProto.FLOAT,),
    TensorProto.FLOAT16: (TensorProto.FLOAT,),
    TensorProto.BFLOAT16: (TensorProto.FLOAT,),
    TensorProto.INT8: (TensorProto.INT32,),
    TensorProto.UINT8: (TensorProto.INT32,),
    TensorProto.INT16: (TensorProto.INT32,),
    TensorProto.UINT16: (TensorProto.INT32,),
    TensorProto.UINT32: (TensorProto.INT32,),
    TensorProto.UINT64: (TensorProto.INT32,),
    TensorProto.INT64: (TensorProto.INT32,),
    TensorProto.INT4: (TensorProto.INT32,),
    TensorProto.UINT4: (TensorProto.INT32,),
    TensorProto.FLOAT8E4M3FN: (TensorProto.FLOAT, TensorProto.INT32),
    TensorProto.FLOAT8E4M3FNUZ: (TensorProto.FLOAT, TensorProto.INT32),
    TensorProto.FLOAT8E5M2: (TensorProto.FLOAT, TensorProto.INT32),
    TensorProto.FLOAT8E5M2FNUZ: (TensorProto.FLOAT, TensorProto.INT32),
    TensorProto.COMPLEX64: (TensorProto.FLOAT,),
    TensorProto.COMPLEX128: (TensorProto.FLOAT, TensorProto.COMPLEX64),
}
"""By element type, what is plainer: float32 and int32 are what every operator and every reader knows."""

TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype"})


def plainer_dtypes(subject: OnnxSubject, hints: Hints) -> Search:
    """One element type after the other, throughout the model; inference says which choices type."""
    best = subject
    for old in sorted({element_type(array.dtype) for array in _arrays(subject)}):
        for new in LATTICE.get(old, ()):
            found = _retyped(best, old, new)
            if found is not None and (yield partial(_retyped, best, old, new)):
                best = found
                break
    return best


def _arrays(subject: OnnxSubject) -> list[Tensor]:
    arrays = [subject.array(name) for name in subject.sources if not subject.is_shape(name)]
    return [array for array in arrays if array is not None]


def _retyped(subject: OnnxSubject, old: int, new: int) -> OnnxSubject | None:
    """Return every tensor of type `old` that flows in, and every type attribute that says so, as `new`."""
    target = onnx.helper.tensor_dtype_to_np_dtype(new)
    changed = {
        name: cast(array, target)
        for name in subject.sources
        if not subject.is_shape(name)
        and (array := subject.array(name)) is not None
        and element_type(array.dtype) == old
    }
    if not changed:
        return None
    inputs: dict[str, Value] = {name: changed.get(name, value) for name, value in subject.inputs.items()}
    return change_model(subject, partial(_edit, old=old, new=new, changed=changed), inputs)


def cast(array: Tensor, target: np.dtype[np.generic]) -> Tensor:
    """Return the values as another type; whole numbers that do not fit become the nearest that do."""
    if target.kind in "iu":
        limits = np.iinfo(target.name)
        wide = np.minimum(array, np.iinfo(np.int64).max) if array.dtype.name == "uint64" else array
        return np.clip(np.asarray(wide).astype(np.int64), limits.min, limits.max).astype(target)
    real = array.real if array.dtype.kind == "c" and target.kind != "c" else array
    return np.asarray(np.asarray(real).astype(target))


def _edit(model: onnx.ModelProto, old: int, new: int, changed: Mapping[str, Tensor]) -> None:
    for tensor in model.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(initializer(tensor.name, changed[tensor.name]))
    for graph in walk_graphs(model.graph):
        for info in (*graph.input, *graph.output):
            if info.type.tensor_type.elem_type == old and (info.name in changed or info not in graph.input):
                info.type.tensor_type.elem_type = new
    for node in walk_nodes(model.graph):
        for attribute in node.attribute:
            is_type = attribute.name in TYPE_ATTRIBUTES and attribute.type == AttributeProto.INT
            if is_type and attribute.i == old:
                attribute.i = new


MOVES = (Move("plainer element types", 554, plainer_dtypes, reshapes=True, on=OnnxSubject),)
