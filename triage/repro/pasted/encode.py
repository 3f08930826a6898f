"""ONNX's protobuf encoding by hand, so that a `repro.py` (into which this text goes) does not need onnx."""

from __future__ import annotations

import struct
from typing import Any

from triage.repro.pasted.elements import BITS, ELEMENTS, Empty, array, packed

KIND_NAMES = "? float int string tensor graph floats ints strings tensors graphs ? ? type"
KINDS = KIND_NAMES.split()


class Tensor(bytes):
    """An encoded tensor."""


class Graph(bytes):
    """An encoded graph."""


class Type(bytes):
    """An encoded type."""


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def integer(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def real(field: int, number: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", number)


def message(field: int, content: Any) -> bytes:
    data = content.encode() if isinstance(content, str) else bytes(content)
    return varint(field << 3 | 2) + varint(len(data)) + data


def messages(field: int, contents: Any) -> bytes:
    return b"".join(message(field, content) for content in contents)


def optional(field: int, text: str) -> bytes:
    return message(field, text) if text else b""


def tensor(name: str, element: str, shape: Any, values: Any) -> Tensor:
    """A constant; `values` are flat, or the raw little-endian bytes."""
    head = (
        b"".join(integer(1, size) for size in shape) + integer(2, ELEMENTS.index(element)) + optional(8, name)
    )
    if element == "string":
        return Tensor(head + messages(6, values))
    if not isinstance(values, bytes):
        data = array(element, shape, values)
        values = (packed(element, data) if element in BITS else data).tobytes()
    return Tensor(head + message(9, values))


def tensor_type(element: str, shape: Any = None) -> Type:
    """A tensor's type; a dimension is a number, a name or None; without a shape the rank is unknown."""
    dims = b""
    for size in shape or ():
        known = b"" if size is None else message(2, size) if isinstance(size, str) else integer(1, size)
        dims += message(1, known)
    return Type(
        message(1, integer(1, ELEMENTS.index(element)) + (b"" if shape is None else message(2, dims)))
    )


def sequence_type(inner: Type) -> Type:
    return Type(message(4, message(1, inner)))


def optional_type(inner: Type) -> Type:
    return Type(message(9, message(1, inner)))


def value(name: str, element_or_type: Any = None, shape: Any = None) -> bytes:
    """A named value with its type: a tensor's element type and shape, another type, or none at all."""
    if isinstance(element_or_type, str):
        element_or_type = tensor_type(element_or_type, shape)
    return message(1, name) + (b"" if element_or_type is None else message(2, element_or_type))


def kind_of(content: Any) -> str:
    if isinstance(content, Empty):
        return content.kind
    if isinstance(content, list):
        return kind_of(content[0]) + "s"
    if isinstance(content, (Tensor, Graph, Type)):
        return type(content).__name__.lower()
    return {str: "string", bytes: "string", int: "int"}.get(type(content), "float")


def attribute(name: str, content: Any) -> bytes:
    kind = kind_of(content)
    body = message(1, name) + integer(20, KINDS.index(kind))
    if isinstance(content, Empty):
        return body + optional(21, content.refers_to)
    fields = {"type": 14, "floats": 7, "ints": 8, "strings": 9, "tensors": 10, "graphs": 11}
    field = fields.get(kind, KINDS.index(kind) + 1)
    put: Any = {"float": real, "floats": real, "int": integer, "ints": integer}.get(kind, message)
    return body + b"".join(put(field, each) for each in (content if isinstance(content, list) else [content]))


def node(
    operator: str,
    inputs: Any,
    outputs: Any,
    attributes: Any = (),
    name: str = "",
    domain: str = "",
    overload: str = "",
) -> bytes:
    encoded = [attribute(key, content) for key, content in dict(attributes).items()]
    body = messages(1, inputs) + messages(2, outputs) + optional(3, name) + message(4, operator)
    return body + messages(5, encoded) + optional(7, domain) + optional(8, overload)


def graph(
    name: str, inputs: Any = (), outputs: Any = (), nodes: Any = (), constants: Any = (), values: Any = ()
) -> Graph:
    body = messages(1, nodes) + optional(2, name) + messages(5, constants)
    return Graph(body + messages(11, inputs) + messages(12, outputs) + messages(13, values))


def imports(field: int, opsets: Any) -> bytes:
    """The versions of the operator sets, by domain or as pairs."""
    pairs = opsets.items() if isinstance(opsets, dict) else opsets
    return messages(field, [optional(1, domain) + integer(2, version) for domain, version in pairs])


def function(
    domain: str,
    name: str,
    opsets: Any,
    inputs: Any = (),
    outputs: Any = (),
    nodes: Any = (),
    attributes: Any = (),
    defaults: Any = (),
    values: Any = (),
    overload: str = "",
) -> bytes:
    """A function of the model's own; `attributes` are those without a default, `defaults` those with one."""
    body = message(1, name) + messages(4, inputs) + messages(5, outputs) + messages(6, attributes)
    body += messages(7, nodes) + imports(9, opsets) + optional(10, domain)
    body += messages(11, [attribute(key, content) for key, content in dict(defaults).items()])
    return body + messages(12, values) + optional(13, overload)


def model(ir_version: int, opsets: Any, graph: Graph, functions: Any = ()) -> bytes:
    body = integer(1, ir_version) + message(7, graph)
    return body + imports(8, opsets) + messages(25, functions)
