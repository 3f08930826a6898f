"""An ONNX model as text for a person: every line one value or one node, weights abbreviated."""

import math
from collections.abc import Iterator

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, numpy_helper

from corpus.onnx.canonical import op_name
from corpus.onnx.graph import subgraphs
from corpus.onnx.types import DTYPES, dtype_name, graph_types, is_external
from corpus.values import Tensor

_SHOWN = 8
_TEXT = 60


def print_text(model: ModelProto) -> str:
    """The whole model, bodies indented, functions last."""
    opsets = ", ".join(f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in model.opset_import)
    lines = [f"ONNX IR {model.ir_version}, opset {opsets}", *_graph_lines(model.graph, "")]
    for function in model.functions:
        name = f"{function.domain}:{function.name}"
        lines.append(f"function {name}({', '.join(function.input)}) -> ({', '.join(function.output)})")
        for node in function.node:
            lines += _node_lines(node, {}, "  ")
    return "\n".join(map(_one_line, lines)) + "\n"


def _one_line(text: str) -> str:
    """The text with what would begin a line or steer a terminal written out: names may hold anything."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _graph_lines(graph: GraphProto, indent: str) -> Iterator[str]:
    types = graph_types(graph)
    for value in graph.input:
        yield f"{indent}input {value.name}: {type_text(value.type)}"
    for tensor in graph.initializer:
        yield f"{indent}weight {tensor.name}: {tensor_text(tensor)}"
    for node in graph.node:
        yield from _node_lines(node, types, indent)
    for value in graph.output:
        yield f"{indent}output {value.name}: {type_text(value.type)}"


def _node_lines(node: NodeProto, types: dict[str, TypeProto], indent: str) -> Iterator[str]:
    outputs = ", ".join(_typed(name, types) for name in node.output)
    attributes = ", ".join(f"{a.name}={attribute_text(a)}" for a in node.attribute if not _is_body(a))
    inputs = ", ".join(name or "_" for name in node.input)
    braces = f"{{{attributes}}}" if attributes else ""
    yield f"{indent}{outputs} = {op_name(node)}{braces}({inputs})"
    names = [attribute.name for attribute in node.attribute if _is_body(attribute)]
    for index, body in enumerate(subgraphs(node)):
        yield f"{indent}  {names[min(index, len(names) - 1)]}:"
        yield from _graph_lines(body, indent + "    ")


def _typed(name: str, types: dict[str, TypeProto]) -> str:
    return f"{name}: {type_text(types[name])}" if name in types else name or "_"


def _is_body(attribute: AttributeProto) -> bool:
    return attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def type_text(declared: TypeProto) -> str:
    """`float32[2,n]`, `sequence of int64[?]`, `optional …`, `?` without a type."""
    match declared.WhichOneof("value"):
        case "tensor_type":
            tensor = declared.tensor_type
            dims = ",".join(
                str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim
            )
            return f"{dtype_name(tensor.elem_type)}[{dims if tensor.HasField('shape') else '…'}]"
        case "sequence_type":
            return f"sequence of {type_text(declared.sequence_type.elem_type)}"
        case "optional_type":
            return f"optional {type_text(declared.optional_type.elem_type)}"
        case None:
            return "?"
        case kind:
            return str(kind).removesuffix("_type")


def tensor_text(tensor: TensorProto) -> str:
    """Type, shape, and the values where they are few."""
    dims = list(tensor.dims)
    text = f"{dtype_name(tensor.data_type)}[{','.join(map(str, dims))}]"
    if is_external(tensor):
        return f"{text} in another file"
    if math.prod(max(dim, 0) for dim in dims) > _SHOWN or tensor.data_type not in DTYPES:
        return text
    try:
        values = _shortest(numpy_helper.to_array(tensor))
    except (ValueError, TypeError):
        return f"{text} (damaged)"
    return f"{text} = {values}"


def _shortest(array: Tensor) -> object:
    """The elements as nested lists; floats in the fewest digits that tell them apart in their own type."""
    if array.dtype.kind in "biuUSO" or "int" in array.dtype.name:
        return array.tolist()
    if array.ndim:
        return [_shortest(each) for each in map(np.asarray, array)]
    return complex(str(array)) if array.dtype.kind == "c" else float(str(array))


def attribute_text(attribute: AttributeProto) -> str:
    """An attribute's value, abbreviated."""
    match attribute.type:
        case AttributeProto.FLOAT:
            return f"{attribute.f:g}"
        case AttributeProto.INT:
            return str(attribute.i)
        case AttributeProto.STRING:
            return repr(attribute.s.decode(errors="replace"))[:_TEXT]
        case AttributeProto.TENSOR:
            return tensor_text(attribute.t)
        case AttributeProto.FLOATS:
            return _list_text([f"{number:g}" for number in attribute.floats])
        case AttributeProto.INTS:
            return _list_text([str(number) for number in attribute.ints])
        case AttributeProto.STRINGS:
            return _list_text([repr(text.decode(errors="replace")) for text in attribute.strings])
        case _:
            return f"@{attribute.ref_attr_name}" if attribute.ref_attr_name else "…"


def _list_text(items: list[str]) -> str:
    return f"[{', '.join(items[:_SHOWN])}{', …' if len(items) > _SHOWN else ''}]"
