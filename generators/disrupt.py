"""Broken programs, each with exactly one violation that is named: HirFuzz's disruptive generation (§3.1).

What a backend owes such a program is a clean refusal. Every function here breaks a model in place and says
how, or declines and leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from generators.draws import Draws
from generators.grow import Program
from generators.types import NUMPY, DType, Shape, TensorType, broadcast

Violate = Callable[[Draws, onnx.GraphProto, Mapping[str, TensorType], int], str | None]

_BROADCAST = ("Add", "Sub", "Mul", "Div", "Max", "Min", "And", "Or", "Xor", "Less", "Greater", "Equal")


def disrupt(draws: Draws, program: Program) -> tuple[onnx.ModelProto, str] | None:
    """The broken model, and its violation; None where none can be put into this program."""
    model = onnx.ModelProto()
    model.CopyFrom(program.model)
    opset = next(entry.version for entry in model.opset_import if not entry.domain)
    for violate in draws.sample(VIOLATIONS, len(VIOLATIONS)):
        violation = violate(draws, model.graph, program.types, opset)
        if violation:
            return model, violation
    return None


def _nodes(draws: Draws, graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """ONNX's own operators in any order."""
    found = [node for node in graph.node if node.op_type != "Constant" and not node.domain]
    yield from draws.sample(found, len(found))


def _schema(node: onnx.NodeProto, opset: int) -> onnx.defs.OpSchema:
    return onnx.defs.get_schema(node.op_type, opset)


def _initializer(graph: onnx.GraphProto, dtype: DType, shape: Shape) -> str:
    """A new initializer of ones."""
    name = f"violation_{len(graph.initializer)}"
    graph.initializer.append(numpy_helper.from_array(np.ones(shape, dtype=NUMPY[dtype]), name))
    return name


def _dtype(draws: Draws, graph: onnx.GraphProto, types: Mapping[str, TensorType], opset: int) -> str | None:
    """An operand of another element type than the one that must have the same."""
    for node in _nodes(draws, graph):
        if node.op_type in _BROADCAST and len(node.input) > 1 and node.input[1] in types:
            own = types[node.input[1]]
            other = draws.pick(
                [dtype for dtype in (DType.F32, DType.F64, DType.I32) if dtype is not own.dtype]
            )
            node.input[1] = _initializer(graph, other, own.shape)
            return f"dtype: operand 1 of {node.name} is {other.name}, not {own.dtype.name}"
    return None


def _shape(draws: Draws, graph: onnx.GraphProto, types: Mapping[str, TensorType], opset: int) -> str | None:
    """An operand whose shape does not broadcast with the other's."""
    for node in _nodes(draws, graph):
        if node.op_type not in _BROADCAST or len(node.input) != 2 or node.input[0] not in types:
            continue
        own = types[node.input[0]]
        if own.shape and own.shape[-1] > 1 and node.input[1] in types:
            shape = (*own.shape[:-1], own.shape[-1] + 1)
            assert broadcast(own.shape, shape) is None
            node.input[1] = _initializer(graph, types[node.input[1]].dtype, shape)
            return f"shape: operand 1 of {node.name} is {shape} beside {own.shape}"
    return None


def _rank(draws: Draws, graph: onnx.GraphProto, types: Mapping[str, TensorType], opset: int) -> str | None:
    """A permutation of more axes than there are."""
    for node in _nodes(draws, graph):
        if node.op_type == "Transpose" and node.attribute:
            rank = len(node.attribute[0].ints)
            node.attribute[0].ints.append(rank)
            return f"rank: {node.name} permutes {rank + 1} axes of {rank}"
    return None


def _attribute(
    draws: Draws, graph: onnx.GraphProto, types: Mapping[str, TensorType], opset: int
) -> str | None:
    """An axis beyond the rank."""
    for node in _nodes(draws, graph):
        axis = next((found for found in node.attribute if found.name == "axis"), None)
        if axis is not None and axis.type == onnx.AttributeProto.INT and node.op_type in _AXIS:
            axis.i = 9
            return f"attribute: axis of {node.name} is 9"
    return None


_AXIS = ("Concat", "Split", "Gather", "Softmax", "LogSoftmax", "ArgMax", "ArgMin", "TopK")


def _arity(draws: Draws, graph: onnx.GraphProto, types: Mapping[str, TensorType], opset: int) -> str | None:
    """One operand too few or too many."""
    for node in _nodes(draws, graph):
        schema = _schema(node, opset)
        if schema.max_input > 8 or not schema.min_input:
            continue
        if draws.chance(0.5):
            most, given = schema.max_input, len(node.input)
            node.input.extend([node.input[0]] * (most + 1 - given))
            return f"arity: {node.name} has {most + 1} operands, at most {most} are allowed"
        del node.input[schema.min_input - 1 :]
        return f"arity: {node.name} has {len(node.input)} operands, at least {schema.min_input} are needed"
    return None


def _cycle(draws: Draws, graph: onnx.GraphProto, types: Mapping[str, TensorType], opset: int) -> str | None:
    """A node that needs its own result."""
    for node in _nodes(draws, graph):
        if node.input and types.get(node.input[0]) == types.get(node.output[0]):
            node.input[0] = node.output[0]
            return f"cycle: {node.name} needs its own result"
    return None


def _dangling(
    draws: Draws, graph: onnx.GraphProto, types: Mapping[str, TensorType], opset: int
) -> str | None:
    """An operand that nothing makes."""
    for node in _nodes(draws, graph):
        if node.input:
            node.input[0] = "nothing_makes_this"
            return f"dangling name: operand 0 of {node.name}"
    return None


def _opset(draws: Draws, graph: onnx.GraphProto, types: Mapping[str, TensorType], opset: int) -> str | None:
    """An operator that only a later opset has."""
    for node in _nodes(draws, graph):
        if (
            len(node.input) == 1
            and not node.attribute
            and types.get(node.input[0]) == types.get(node.output[0])
        ):
            node.op_type = "Gelu" if opset < 20 else "Swish"
            return f"opset: {node.name} is {node.op_type}, which opset {opset} does not have"
    return None


VIOLATIONS: tuple[Violate, ...] = (_dtype, _shape, _rank, _attribute, _arity, _cycle, _dangling, _opset)
