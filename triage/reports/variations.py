"""What a failure depends on: the same small program with other element types, judged again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import onnx

from corpus.case import Case
from corpus.onnx.types import DTYPES, dtype_name, element_type
from corpus.values import Value
from oracles.judge import Judge
from oracles.verdict import Outcome, Verdict
from triage.repro.normal_form import messages

FAMILIES = (
    (onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE),
    (onnx.TensorProto.INT8, onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.UINT8),
)
"""Types among which a program is varied: floats with floats, integers with integers."""
MOST_NODES = 12


@dataclass(frozen=True)
class Variation:
    """One variant: what was changed, and whether the failure shows on it (None: it is no valid program)."""

    name: str
    shows: bool | None


def vary_dtypes(case: Case, verdict: Verdict, judge: Judge) -> tuple[Variation, ...]:
    """Return the program in each other type of the family of the type that most of its inputs have."""
    model: onnx.ModelProto = case.parsed
    code = _main_type(case)
    family = next((each for each in FAMILIES if code in each), ())
    if len(model.graph.node) > MOST_NODES or case.external:
        return ()
    return tuple(_try(case, model, code, other, verdict, judge) for other in family)


def _main_type(case: Case) -> int:
    tensors = [value for value in case.inputs.values() if isinstance(value, np.ndarray)]
    found = Counter(element_type(tensor.dtype) for tensor in tensors)
    return found.most_common(1)[0][0] if found else 0


def _try(
    case: Case, model: onnx.ModelProto, code: int, other: int, verdict: Verdict, judge: Judge
) -> Variation:
    name = dtype_name(other)
    if other == code:
        return Variation(name, True)
    changed = replace(
        case,
        program=retyped(model, code, other).SerializeToString(deterministic=True),
        inputs={key: _converted(value, code, other) for key, value in case.inputs.items()},
    )
    found = judge.verdict(changed)
    if found.outcome in (Outcome.INVALID, Outcome.UNSUPPORTED):
        return Variation(name, None)
    return Variation(name, _face(found) == _face(verdict))


def _face(verdict: Verdict) -> tuple[Outcome, str]:
    return verdict.outcome, verdict.symptom.kind if verdict.symptom else ""


def retyped(model: onnx.ModelProto, code: int, other: int) -> onnx.ModelProto:
    """Return the model with every value, weight and cast of one element type in another one."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    named = {("to", code), ("dtype", code)}
    for message in list(messages(made)):
        if isinstance(message, onnx.TensorProto) and message.data_type == code:
            array = onnx.numpy_helper.to_array(message)
            message.CopyFrom(onnx.numpy_helper.from_array(in_type(array, other), message.name))
        elif isinstance(message, onnx.TypeProto.Tensor) and message.elem_type == code:
            message.elem_type = other
        elif isinstance(message, onnx.AttributeProto) and (message.name, message.i) in named:
            message.i = other
    return made


def _converted(value: Value, code: int, other: int) -> Value:
    if not isinstance(value, np.ndarray) or element_type(value.dtype) != code:
        return value
    return in_type(value, other)


def in_type(array: np.ndarray, other: int) -> np.ndarray:
    """Convert to another type; the least and the greatest integer stay so, since they may be what fails."""
    dtype = DTYPES[other]
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        limits, own = np.iinfo(dtype), np.iinfo(array.dtype)
        made = np.where(array == own.min, limits.min, np.where(array == own.max, limits.max, made))
    return made.astype(dtype)
