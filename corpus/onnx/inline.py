"""Model-local functions written out where they are called."""

from __future__ import annotations

from onnx import ModelProto
from onnx.inliner import inline_local_functions


def written_out(model: ModelProto) -> ModelProto:
    """Return the model without functions of its own; what its inner values are called is left open.

    onnx's own inliner takes a hundredth of the time that `onnx_ir` takes to load; what it leaves is for that.
    """
    made = inline_local_functions(model)
    del made.graph.value_info[:]
    return inlined(model) if made.functions else made


def inlined(model: ModelProto, only: tuple[str, str] | None = None) -> ModelProto:
    """Return the model without functions of its own, or without the one of that domain and name.

    Types of inner values are left out.
    """
    from onnx_ir import from_proto, to_proto
    from onnx_ir.passes.common import InlinePass

    write_out = InlinePass(lambda each: only is None or (each.domain, each.name) == only)
    made = to_proto(write_out(from_proto(model)).model)
    del made.graph.value_info[:]
    return made
