"""Weights that may move: they become inputs while values are looked for, and weights again after."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from corpus.case import Case
from corpus.onnx.types import element_type
from generators.language.types import dtype_of, is_float

MOST_ELEMENTS = 1 << 20
"""A larger weight stays as it is."""


def freed(case: Case) -> Case:
    """Return the case with its float weights among its inputs; itself where it has none that may move."""
    model = onnx.ModelProto()
    model.CopyFrom(case.parsed)
    found = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in filter(_may_move, model.graph.initializer)
    }
    if not found:
        return case
    declared = {each.name for each in model.graph.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in found]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    for name, value in found.items():
        if name not in declared:
            kind = element_type(value.dtype)
            model.graph.input.append(helper.make_tensor_value_info(name, kind, value.shape))
    return replace(case, program=model.SerializeToString(), inputs={**found, **case.inputs})


def bound(found: Case, case: Case) -> Case:
    """Return the case with the values that its weights and inputs have in one that was `freed`."""
    model = onnx.ModelProto()
    model.CopyFrom(case.parsed)
    for tensor in model.graph.initializer:
        value = found.inputs.get(tensor.name)
        if isinstance(value, np.ndarray) and tensor.name not in case.inputs:
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    inputs = {name: found.inputs[name] for name in case.inputs}
    return replace(case, program=model.SerializeToString(), inputs=inputs)


def _may_move(tensor: onnx.TensorProto) -> bool:
    is_inside = tensor.data_location != onnx.TensorProto.EXTERNAL
    if not is_inside or not 0 < np.prod(tensor.dims, dtype=np.int64) <= MOST_ELEMENTS:
        return False
    return is_float(dtype_of(numpy_helper.to_array(tensor)))
