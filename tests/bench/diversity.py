"""The same measures over any generator's models, from the models alone: types are inferred anew."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import onnx
from onnx import shape_inference

from generators.language.profile import qualified_name

Type = tuple[int, tuple[int, ...] | None]


@dataclass
class Diversity:
    """Distinct pieces of all models that were added; Constants are values, not nodes."""

    nodes: int = 0
    op_types: set[str] = field(default_factory=set)
    op_dtypes: set[tuple[object, ...]] = field(default_factory=set)
    op_ranks: set[tuple[object, ...]] = field(default_factory=set)
    edges: set[tuple[str, str]] = field(default_factory=set)
    edges_dtype_slot: set[tuple[object, ...]] = field(default_factory=set)
    op_instances: set[tuple[object, ...]] = field(default_factory=set)

    def add(self, model: onnx.ModelProto) -> None:
        types = _types(model)
        producer: dict[str, str] = {}
        for node in model.graph.node:
            if node.op_type == "Constant":
                continue
            name = qualified_name(node)
            operands = [types.get(one) for one in node.input if one]
            dtypes = tuple(one[0] if one else 0 for one in operands)
            shapes = tuple(one[1] if one else None for one in operands)
            results = tuple(types[one][0] if one in types else 0 for one in node.output)
            self.nodes += 1
            self.op_types.add(name)
            self.op_dtypes.add((name, dtypes, results))
            self.op_ranks.add((name, tuple(-1 if one is None else len(one) for one in shapes)))
            self.op_instances.add((name, dtypes, shapes, _attributes(node)))
            for slot, one in enumerate(node.input):
                if one in producer:
                    self.edges.add((producer[one], name))
                    self.edges_dtype_slot.add((producer[one], name, slot, types.get(one, (0, None))[0]))
            producer.update(dict.fromkeys(node.output, name))

    def facts(self) -> dict[str, int]:
        sizes = {name: len(value) for name, value in vars(self).items() if isinstance(value, set)}
        return {"nodes": self.nodes, **sizes}


def of_models(models: Iterable[onnx.ModelProto]) -> Diversity:
    found = Diversity()
    for model in models:
        found.add(model)
    return found


def _types(model: onnx.ModelProto) -> dict[str, Type]:
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    found: dict[str, Type] = {
        info.name: _type(info.type.tensor_type) for info in (*graph.value_info, *graph.input, *graph.output)
    }
    found |= {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            value = node.attribute[0].t
            found[node.output[0]] = value.data_type, tuple(value.dims)
    return found


def _type(tensor: onnx.TypeProto.Tensor) -> Type:
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    return tensor.elem_type, tuple(
        dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim
    )


def _attributes(node: onnx.NodeProto) -> tuple[tuple[str, str], ...]:
    """By value; tensors and graphs by their presence."""
    large = (onnx.AttributeProto.TENSOR, onnx.AttributeProto.GRAPH)
    return tuple(
        sorted(
            (one.name, "" if one.type in large else str(onnx.helper.get_attribute_value(one)))
            for one in node.attribute
        )
    )
