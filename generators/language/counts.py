"""How diverse emitted programs are: distinct operators, with their types, shapes and neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from oracles.relation.types import TensorType


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of what the models have held so far; Constants are values, not operators.

    `op_types` holds names, `op_dtype` names with the element types of operands and results, `op_shape` names
    with the operands' shapes, `op_edge` pairs of a producer and its consumer.
    """

    models: int = 0
    op_types: frozenset[str] = field(default_factory=frozenset)
    op_dtype: frozenset[tuple[object, ...]] = field(default_factory=frozenset)
    op_shape: frozenset[tuple[object, ...]] = field(default_factory=frozenset)
    op_edge: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def __or__(self, other: Counts) -> Counts:
        return Counts(
            self.models + other.models,
            self.op_types | other.op_types,
            self.op_dtype | other.op_dtype,
            self.op_shape | other.op_shape,
            self.op_edge | other.op_edge,
        )

    def facts(self) -> dict[str, int]:
        """Count the distinct members of each set."""
        return {
            "models": self.models,
            "op_types": len(self.op_types),
            "op_dtype": len(self.op_dtype),
            "op_shape": len(self.op_shape),
            "op_edge": len(self.op_edge),
        }


def qualified_name(node: onnx.NodeProto) -> str:
    """The operator with its operator set, where that is not ONNX's own."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def count(model: onnx.ModelProto, types: Mapping[str, TensorType]) -> Counts:
    """The counts of one model, given the type of every value in it."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    producer = {name: qualified_name(node) for node in nodes for name in node.output}
    op_dtype: set[tuple[object, ...]] = set()
    op_shape: set[tuple[object, ...]] = set()
    op_edge: set[tuple[str, str]] = set()
    for node in nodes:
        operands = [types[name] for name in node.input if name in types]
        results = tuple(types[name].dtype for name in node.output if name in types)
        op_dtype.add((qualified_name(node), tuple(operand.dtype for operand in operands), results))
        op_shape.add((qualified_name(node), tuple(operand.shape for operand in operands)))
        op_edge.update((producer[name], qualified_name(node)) for name in node.input if name in producer)
    names = frozenset(map(qualified_name, nodes))
    return Counts(1, names, frozenset(op_dtype), frozenset(op_shape), frozenset(op_edge))
