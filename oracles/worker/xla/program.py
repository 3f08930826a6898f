"""An ONNX program as a module of StableHLO: each node through the table of lowerings, traced by jax.

The table has what the one to torch has. What has no lowering of its own but a body in ONNX's schema, ONNX
itself writes out. Defaults of attributes come from the schema. A value that decides shapes is computed by
ONNX's own evaluator.
"""

from typing import Any

import jax
import numpy as np
from onnx import AttributeProto, TensorProto, defs, helper, inliner, numpy_helper, shape_inference

from oracles.worker.arrays import literal
from oracles.worker.onnx import Lowering, Unsupported, fed_names, to_array
from oracles.worker.xla.elementwise import ELEMENTWISE
from oracles.worker.xla.layout import LAYOUT
from oracles.worker.xla.networks import NETWORKS, REDUCTIONS
from oracles.worker.xla.traced import Scope, TracedOp

TABLE: dict[str, Lowering] = {**ELEMENTWISE, **REDUCTIONS, **LAYOUT, **NETWORKS}

LARGE = 1 << 14
"""A weight of more elements is an argument: XLA folds constants, and writes them into its code."""

NO_INPUT = "XLA takes no input of dtype string, sequence, optional or map"


_WRITTEN_OUT = """
    AffineGrid Attention CastLike CenterCropPad GroupNormalization
    MeanVarianceNormalization NegativeLogLikelihoodLoss RMSNormalization RotaryEmbedding
    SoftmaxCrossEntropyLoss SwiGLU Swish
"""
WRITTEN_OUT = frozenset(_WRITTEN_OUT.split())
"""The operators without a lowering here that ONNX itself writes out by others."""


class Lowered:
    """A model as a jax function of its inputs and large weights, traced."""

    def __init__(self, model: Any, inputs: dict[str, Any]) -> None:
        model = inliner.inline_local_functions(model) if model.functions else model
        weights = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
        if any(value.dtype.kind in "OUS" for value in weights.values()):
            raise Unsupported("a weight of strings: no lowering for them")
        large = {name: value for name, value in weights.items() if value.size > LARGE}
        fed = {name: checked(inputs[name]) for name in fed_names(model.graph)}
        scope = Scope(model, {**fed, **weights}, lower_node)
        self.arguments = {**fed, **large}
        self.traced = jax.jit(lambda values: scope.outputs({**weights, **values}), keep_unused=True).lower(
            self.arguments
        )
        self.names = [each.name for each in model.graph.output]

    @property
    def arrays(self) -> list[Any]:
        """What to call the module with, in order."""
        return [self.arguments[name] for name in sorted(self.arguments)]

    def source(self) -> dict[str, Any]:
        """`module`: an assignment of its text to `MODULE`; `inputs`: the list of what to call it with."""
        lines = [f"{literal(self.arguments[name])},  # {name}" for name in sorted(self.arguments)]
        text = self.traced.as_text().replace("\\", "\\\\")
        return {"module": np.array(f'MODULE = """\\\n{text}"""'), "inputs": np.array("\n".join(lines))}


def bytecode(traced: Any) -> bytes:
    """A lowered function as MLIR's bytecode."""
    from jax.interpreters import mlir

    return bytes(mlir.module_to_bytecode(traced.compiler_ir("stablehlo")))


def checked(given: Any) -> Any:
    """An input as an array."""
    value = to_array(given)
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OUS":
        raise Unsupported(NO_INPUT)
    return value


def lower_node(node: Any, values: list[Any], scope: Scope) -> Any:
    """The result of one node, or the tuple of them; raises `Unsupported`."""
    is_standard = node.domain in ("", "ai.onnx")
    if is_standard and node.op_type in WRITTEN_OUT:
        return written_out(node, values, scope)
    if not is_standard or node.op_type not in TABLE:
        raise Unsupported(f"operator {node.domain}{node.op_type} has no lowering to jax")
    op = TracedOp(node, attributes_of(node, scope.opset), values, scope)
    function = TABLE[node.op_type](op)
    return function(*(jax.numpy.asarray(each) if isinstance(each, np.ndarray) else each for each in values))


def written_out(node: Any, values: list[Any], scope: Scope) -> Any:
    """The result of a node by the body that ONNX's schema has for operands of these types."""
    given = {name: value for name, value in zip(node.input, values) if name}  # noqa: B905 (Python 3.8)
    whole = type(node)()
    whole.CopyFrom(node)
    given_names = {each.name for each in node.attribute}
    schema = defs.get_schema(node.op_type, scope.opset, "")
    for name, each in schema.attributes.items():  # a body may hand an attribute on
        if name not in given_names and each.default_value.type != AttributeProto.UNDEFINED:
            whole.attribute.append(each.default_value)
    inputs = [typed(name, value) for name, value in given.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([whole], "body", inputs, outputs)
    model = helper.make_model(graph, opset_imports=scope.model.opset_import)
    typed_model, chosen = shape_inference.infer_shapes(model), [("", node.op_type)]
    try:
        model = inliner.inline_selected_functions(typed_model, chosen, inline_schema_functions=True)
    except RuntimeError as error:  # a body that asks for the type of an operand that is left out
        raise Unsupported(f"{node.op_type}: no lowering for what ONNX cannot write out") from error
    if any(each.op_type == node.op_type for each in model.graph.node):
        raise Unsupported(f"{node.op_type}: no lowering for opset {scope.opset}")
    found = dict(zip([each.name for each in outputs], scope.within(model.graph).outputs(given)))  # noqa: B905
    results = tuple(found.get(name) for name in node.output)
    return results if len(results) > 1 else results[0]


def typed(name: str, value: Any) -> Any:
    """The declaration of a traced value."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return helper.make_tensor_value_info(name, element, list(value.shape))


def attributes_of(node: Any, opset: int) -> dict[str, Any]:
    """A node's attributes by name, those that it leaves out as the schema has them; tensors as arrays."""
    schema = defs.get_schema(node.op_type, opset, "")
    default = {name: each.default_value for name, each in schema.attributes.items()}
    whole = {name: each for name, each in default.items() if each.type != AttributeProto.UNDEFINED}
    whole.update({each.name: each for each in node.attribute})
    found = {name: helper.get_attribute_value(each) for name, each in whole.items()}
    return {
        name: numpy_helper.to_array(value) if isinstance(value, TensorProto) else value
        for name, value in found.items()
    }
