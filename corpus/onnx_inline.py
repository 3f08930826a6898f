"""Model-local functions written out where they are called."""

from __future__ import annotations

from onnx import ModelProto


def inlined(model: ModelProto) -> ModelProto:
    """The model without functions of its own; types of inner values are left out."""
    from onnx_ir import from_proto, to_proto
    from onnx_ir.passes.common import InlinePass

    made = to_proto(InlinePass()(from_proto(model)).model)
    del made.graph.value_info[:]
    return made
