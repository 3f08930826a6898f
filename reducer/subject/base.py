"""What every subject has, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from corpus.values import Value


@dataclass(frozen=True)
class Facts:
    """Types and recorded values of tensors by name; a name keeps its meaning while nodes are only removed.

    `types` come from shape inference (symbolic dims kept) or from the value; `values` from one run of the
    un-optimised backend. Either may lack a name. `specified` are the inferred types of results that a kernel
    gave in another shape, on operands that were as inferred: what the model should declare for them.
    """

    types: Mapping[str, onnx.TypeProto] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    specified: Mapping[str, onnx.TypeProto] = field(default_factory=dict)
