"""Operators that only patterns hold: no program draws them, so they change no other strategy's programs."""

from __future__ import annotations

from generators.language.intervals import symmetric
from generators.language.operator import Operator
from generators.language.program import Call, Kind
from generators.language.types import ANYTHING, F32, I64, TEXT, Range, TensorType


def _attended(call: Call) -> tuple[TensorType, ...]:
    """A third of what the weights compute is the values, which have the result's width."""
    focus, weights = call.operand(0), call.operand(1)
    return (TensorType(focus.dtype, (*focus.shape[:2], weights.shape[1] // 3)),)


def _attended_range(call: Call) -> tuple[Range, ...]:
    """A result lies among the values: rows of the input by the weights, and a bias."""
    focus, weights, bias = (call.operand(index) for index in range(3))
    product = focus.range.magnitude * weights.range.magnitude * focus.shape[2]
    return (symmetric(product + bias.range.magnitude),)


def _encoded(call: Call) -> tuple[TensorType, ...]:
    values = TEXT if "values_strings" in call.attributes else I64
    return (TensorType(values, call.operand(0).shape),)


def _encoded_range(call: Call) -> tuple[Range, ...]:
    labels = [*call.tuple_of("values_int64s", ()), call.integer("default_int64", 0)]
    is_text = "values_strings" in call.attributes
    return (ANYTHING if is_text else Range(min(labels), max(labels)),)


HELD = (
    Operator(
        "com.microsoft.Attention",
        Kind.LINEAR,
        (F32,),
        infer=_attended,
        bound=_attended_range,
        ranks=range(3, 4),
    ),
    Operator("ai.onnx.ml.LabelEncoder", Kind.PART, (I64, TEXT), infer=_encoded, bound=_encoded_range),
)
"""Each by what a pattern needs of it: element types, the type rule and the bounds of its result."""
