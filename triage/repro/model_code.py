"""A model as the Python that builds it: in ONNX's text form, or in the words of `triage.repro.pasted.encode`.

The text is made of literals, so names and strings can do no harm. What neither can say (sparse tensors,
maps, training information) raises `NotExpressible`, and the caller embeds the model's bytes instead.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from corpus.onnx.client import text_of
from corpus.onnx.types import DTYPES
from corpus.values import Tensor
from triage.repro.pasted.elements import BITS, ELEMENTS

WIDTH = 100
MOST_VALUES = 512
"""Elements of one tensor written as numbers; a longer one is written as bytes."""
MOST_BYTES = 1 << 16
"""Bytes of a model that is written in ONNX's text form."""


class NotExpressible(Exception):
    """The model holds something that the builder functions have no word for."""


def parsed_code(model: onnx.ModelProto) -> str:
    """The expression by which onnx's parser makes the model of its text; `onnx` is imported by the caller."""
    found = text_of(model.SerializeToString()) if model.ByteSize() <= MOST_BYTES else None
    if found is None or normal_form(onnx.ModelProto.FromString(found[1])) != normal_form(model):
        raise NotExpressible("what ONNX's text form does not say")
    text = found[0].strip()
    if not all(line.isprintable() for line in text.split("\n")):
        raise NotExpressible("characters that are not printed")
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'onnx.parser.parse_model("""\n{escaped}\n""")'


def model_code(model: onnx.ModelProto, indent: int = 0) -> str:
    """The expression that builds the model in these words."""
    if model.training_info or model.graph.sparse_initializer or model.graph.quantization_annotation:
        raise NotExpressible("training information, sparse or quantisation annotations")
    parts = {
        "ir_version": repr(model.ir_version),
        "opsets": _opsets(model.opset_import),
        "graph": _graph(model.graph, indent + 4),
        "functions": _list([_function(each, indent + 8) for each in model.functions], indent + 4),
    }
    return _call("model", [f"{name}={text}" for name, text in _given(parts).items()], indent, force=True)


def array_code(element: str, array: Tensor, indent: int) -> str:
    """The arguments (element type, shape, values) that give an array of inputs."""
    return f"array({element!r}, {list(array.shape)}, {_values(element, array, indent)})"


def element_name(code: int) -> str:
    """An element type as the script calls it."""
    if not 0 < code < len(ELEMENTS):
        raise NotExpressible(f"element type {code}")
    return ELEMENTS[code]


def _graph(graph: GraphProto, indent: int) -> str:
    if graph.sparse_initializer:
        raise NotExpressible("a sparse constant")
    inner = indent + 4
    parts = {
        "inputs": _list([_value(each) for each in graph.input], inner),
        "constants": _list([_tensor(each, inner + 4) for each in graph.initializer], inner),
        "nodes": _list([_node(each, inner + 4) for each in graph.node], inner, force=True),
        "values": _list([_value(each) for each in graph.value_info], inner),
        "outputs": _list([_value(each) for each in graph.output], inner),
    }
    arguments = [repr(graph.name), *(f"{name}={text}" for name, text in _given(parts).items())]
    return _call("graph", arguments, indent, force=True)


def _node(node: NodeProto, indent: int) -> str:
    arguments = [repr(node.op_type), repr(list(node.input)), repr(list(node.output))]
    if node.attribute:
        arguments.append(_attributes(node.attribute, indent))
    texts = {"name": node.name, "domain": node.domain, "overload": node.overload}
    arguments += [f"{name}={text!r}" for name, text in texts.items() if text]
    return _call("node", arguments, indent)


def _attributes(attributes: Iterable[AttributeProto], indent: int) -> str:
    return "{" + ", ".join(f"{each.name!r}: {_attribute(each, indent + 4)}" for each in attributes) + "}"


def _attribute(attribute: AttributeProto, indent: int) -> str:
    kind = attribute.type
    if attribute.ref_attr_name:
        return f"Empty({AttributeProto.AttributeType.Name(kind).lower()!r}, {attribute.ref_attr_name!r})"
    one: dict[int, Callable[[], str]] = {
        AttributeProto.FLOAT: lambda: _float(attribute.f),
        AttributeProto.INT: lambda: repr(attribute.i),
        AttributeProto.STRING: lambda: _text(attribute.s),
        AttributeProto.TENSOR: lambda: _tensor(attribute.t, indent),
        AttributeProto.GRAPH: lambda: _graph(attribute.g, indent),
        AttributeProto.TYPE_PROTO: lambda: _type(attribute.tp),
    }
    many: dict[int, Callable[[], list[str]]] = {
        AttributeProto.FLOATS: lambda: [_float(each) for each in attribute.floats],
        AttributeProto.INTS: lambda: [repr(each) for each in attribute.ints],
        AttributeProto.STRINGS: lambda: [_text(each) for each in attribute.strings],
        AttributeProto.TENSORS: lambda: [_tensor(each, indent) for each in attribute.tensors],
        AttributeProto.GRAPHS: lambda: [_graph(each, indent) for each in attribute.graphs],
    }
    if kind in one:
        return one[kind]()
    if kind not in many:
        raise NotExpressible(f"attribute {attribute.name} of kind {kind}")
    items = many[kind]()
    return _wrap(items, indent) if items else f"Empty({AttributeProto.AttributeType.Name(kind).lower()!r})"


def _tensor(tensor: TensorProto, indent: int) -> str:
    element = element_name(tensor.data_type)
    if tensor.data_location == TensorProto.EXTERNAL:
        raise NotExpressible("weights in a file of their own")
    if element == "string":
        values = _wrap([_text(each) for each in tensor.string_data], indent)
    else:
        values = _values(element, onnx.numpy_helper.to_array(tensor), indent)
    return f"tensor({tensor.name!r}, {element!r}, {list(tensor.dims)}, {values})"


def _values(element: str, array: Tensor, indent: int) -> str:
    """Flat values as a list; all equal ones as a product; many as bytes."""
    flat = _bits(element, array).reshape(-1)
    if flat.dtype.kind in "US" or flat.dtype == object:
        return _wrap([repr(str(each)) for each in flat], indent)
    if flat.size > 1 and len(np.unique(flat.view(f"V{flat.itemsize}"))) == 1:
        return f"[{_number(flat[0])}] * {flat.size}"
    if flat.size > MOST_VALUES and element not in BITS:
        return _wrap_bytes(flat.tobytes(), indent)
    return _wrap([_number(each) for each in flat], indent)


def _bits(element: str, array: Tensor) -> Tensor:
    """The array as numpy can hold it: bit patterns for the types that numpy lacks."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    if ELEMENTS.index(element) >= ELEMENTS.index("bfloat16"):
        return array.view(f"u{array.dtype.itemsize}").reshape(array.shape)
    return array.astype(DTYPES[ELEMENTS.index(element)], copy=False) if element != "string" else array


def _number(number: Any) -> str:
    """A literal that gives the same bits back in the number's own type; `str` is the shortest such text."""
    if number.dtype.kind != "f":
        return repr(number.item())
    return _float(number)


def _float(number: Any) -> str:
    return str(number if isinstance(number, np.floating) else np.float32(number))


def _text(content: bytes) -> str:
    try:
        return repr(content.decode())
    except UnicodeDecodeError:
        return repr(content)


def _value(value: ValueInfoProto) -> str:
    if not value.HasField("type") or value.type.WhichOneof("value") is None:
        return f"value({value.name!r})"
    if value.type.HasField("tensor_type"):
        return f"value({value.name!r}, {_tensor_type(value.type.tensor_type)})"
    return f"value({value.name!r}, {_type(value.type)})"


def _type(declared: TypeProto) -> str:
    which = declared.WhichOneof("value")
    if which == "tensor_type":
        return f"tensor_type({_tensor_type(declared.tensor_type)})"
    if which == "sequence_type":
        return f"sequence_type({_type(declared.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional_type({_type(declared.optional_type.elem_type)})"
    raise NotExpressible(f"a {which}")


def _tensor_type(declared: TypeProto.Tensor) -> str:
    element = repr(element_name(declared.elem_type))
    if not declared.HasField("shape"):
        return element
    fields = {"dim_value": lambda dim: repr(dim.dim_value), "dim_param": lambda dim: repr(dim.dim_param)}
    sizes = [fields.get(dim.WhichOneof("value"), lambda _: "None")(dim) for dim in declared.shape.dim]
    return f"{element}, [{', '.join(sizes)}]"


def _function(function: FunctionProto, indent: int) -> str:
    parts = {
        "inputs": repr(list(function.input)),
        "outputs": repr(list(function.output)),
        "nodes": _list([_node(each, indent + 8) for each in function.node], indent + 4, force=True),
        "attributes": repr(list(function.attribute)),
        "defaults": _attributes(function.attribute_proto, indent) if function.attribute_proto else "[]",
        "values": _list([_value(each) for each in function.value_info], indent + 4),
        "overload": repr(function.overload) if function.overload else "[]",
    }
    head = [repr(function.domain), repr(function.name), _opsets(function.opset_import)]
    return _call("function", [*head, *(f"{name}={text}" for name, text in _given(parts).items())], indent)


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> str:
    """Write the opsets by domain, or as pairs if a model imports one domain twice."""
    pairs = [(each.domain, each.version) for each in imports]
    return repr(dict(pairs) if len(dict(pairs)) == len(pairs) else pairs)


def _given(parts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in parts.items() if text != "[]"}


def _call(name: str, arguments: list[str], indent: int, *, force: bool = False) -> str:
    """A call on one line where it fits, else an argument a line; `indent` is the column of its own line."""
    line = f"{name}({', '.join(arguments)})"
    if not force and len(line) + indent <= WIDTH and "\n" not in line:
        return line
    if not force and "\n" in line:
        return line
    inner = " " * (indent + 4)
    return f"{name}(\n" + "".join(f"{inner}{each},\n" for each in arguments) + " " * indent + ")"


def _list(items: list[str], indent: int, *, force: bool = False) -> str:
    line = f"[{', '.join(items)}]"
    if not items or (not force and len(line) + indent + 12 <= WIDTH and "\n" not in line):
        return line
    inner = " " * (indent + 4)
    return "[\n" + "".join(f"{inner}{each},\n" for each in items) + " " * indent + "]"


def _wrap(items: list[str], indent: int) -> str:
    """A list filled into lines."""
    line = f"[{', '.join(items)}]"
    if len(line) <= WIDTH - indent - 24:
        return line
    inner = " " * (indent + 4)
    lines, current = [], ""
    for item in items:
        if current and len(inner) + len(current) + len(item) > WIDTH:
            lines.append(current)
            current = ""
        current += f"{item}, "
    return "[\n" + "".join(f"{inner}{each.rstrip()}\n" for each in [*lines, current]) + " " * indent + "]"


def _wrap_bytes(content: bytes, indent: int) -> str:
    """Bytes as base64 in lines of fixed length."""
    import base64

    text = base64.b64encode(content).decode()
    inner = " " * (indent + 4)
    width = 80
    lines = [f'{inner}"{text[at : at + width]}"\n' for at in range(0, len(text), width)]
    return "base64.b64decode(\n" + "".join(lines) + " " * indent + ")"


DATA_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


def normal_form(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with all weights as raw bytes and without fields that only spell out their default."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for message in messages(copy):
        if isinstance(message, TensorProto):
            _to_raw(message)
        for field, value in message.ListFields():
            is_scalar = field.message_type is None and not field.is_repeated
            if is_scalar and field.containing_oneof is None and value == field.default_value:
                message.ClearField(field.name)
    return copy


def messages(message: Any) -> Iterator[Any]:
    """Yield a protobuf message and all messages in it, the outer ones first."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                yield from messages(each)


def _to_raw(tensor: TensorProto) -> None:
    if any(len(getattr(tensor, field)) for field in DATA_FIELDS):
        raw = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
        for field in DATA_FIELDS:
            tensor.ClearField(field)
        tensor.raw_data = raw
