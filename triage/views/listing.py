"""A model and its values as text and as a picture, for a person."""

import numpy as np
import onnx

from corpus.onnx.text import print_text, tensor_text, type_text
from corpus.onnx.types import graph_types, inferred_types
from corpus.values import Tensor, Value
from triage.views.drawn import DrawnGraph

MOST_VALUES = 36
MOST_TEXT = 200


def list_model(model: onnx.ModelProto) -> str:
    """The model with the type of every value that inference can tell, a line a node."""
    types = inferred_types(model)
    known = graph_types(model.graph)
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    found = {name: declared for name, declared in types.items() if name not in known}
    typed.graph.value_info.extend(
        onnx.ValueInfoProto(name=name, type=declared) for name, declared in found.items()
    )
    return print_text(typed).rstrip()


def describe_value(value: Value) -> str:
    """A value's type and, where there are few, its elements."""
    if value is None:
        return "absent"
    if isinstance(value, list):
        return f"sequence of {len(value)}: " + "; ".join(describe_value(each) for each in value)
    element = "string" if value.dtype.kind in "UO" else value.dtype.name
    return f"{element}[{','.join(map(str, value.shape))}] = {elements(value)}"


def elements(tensor: Tensor) -> str:
    """The elements of a tensor, nested, where they are few; else the first ones, or the one that all are."""
    flat = np.asarray(tensor).reshape(-1)
    if flat.size <= MOST_VALUES:
        return _nested(np.asarray(tensor))
    if all(each == flat[0] for each in flat):
        return f"all {flat[0]}"
    return f"[{', '.join(str(each) for each in flat[:MOST_VALUES])}, …]"


def _nested(tensor: Tensor) -> str:
    """Nested brackets with every element in the shortest text of its own type."""
    if tensor.ndim:
        return f"[{', '.join(_nested(each) for each in map(np.asarray, tensor))}]"
    return repr(str(tensor)) if tensor.dtype.kind in "UO" else str(tensor[()])


def mermaid(drawn: DrawnGraph) -> str:
    """A main graph as a Mermaid flow chart: inputs, weights, operators, outputs."""
    graph = drawn.graph
    types = {name: type_text(declared) for name, declared in drawn.types.items()}
    makers: dict[str, str] = {}
    lines = ["flowchart TD"]
    constants = {each.name for each in graph.initializer}
    for place, value in enumerate(each for each in graph.input if each.name not in constants):
        makers[value.name] = f"i{place}"
        lines.append(f'  i{place}(["{_label(value.name, types)}"])')
    for place, tensor in enumerate(graph.initializer):
        makers[tensor.name] = f"c{place}"
        lines.append(f'  c{place}[/"{_escape(f"{tensor.name}: {tensor_text(tensor)}")}"/]')
    for place, node in enumerate(graph.node):
        makers |= {name: f"n{place}" for name in node.output if name}
        lines.append(f'  n{place}["{_escape(node.op_type)}"]')
    for place, node in enumerate(graph.node):
        lines += [f"  {makers[name]} --> n{place}" for name in node.input if name in makers]
    for place, value in enumerate(graph.output):
        lines.append(f'  o{place}(["{_label(value.name, types)}"])')
        lines += [f"  {makers[value.name]} --> o{place}"] if value.name in makers else []
    return "\n".join(lines)


def _label(name: str, types: dict[str, str]) -> str:
    return _escape(f"{name}: {types[name]}" if name in types else name)


def _escape(text: str) -> str:
    """Text for a Mermaid label in quotes: entities for what would end it or be read as markup."""
    text = "".join(char if char.isprintable() else " " for char in text[:MOST_TEXT])
    for char, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(char, entity)
    return text
