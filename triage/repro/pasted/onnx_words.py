"""A model in the words of `encode`, put together by `onnx`; this text goes into a `repro.py`.

For packages whose users have `onnx`: the script is shorter, and a maintainer knows every name in it.
"""

from __future__ import annotations

from typing import Any

import onnx

from triage.repro.pasted.elements import BITS, ELEMENTS, Empty, array, packed


def tensor(name: str, element: str, shape: Any, values: Any) -> onnx.TensorProto:
    """A constant; `values` are flat, or the raw little-endian bytes."""
    made = onnx.TensorProto(name=name, data_type=ELEMENTS.index(element), dims=shape)
    if element == "string":
        made.string_data.extend(each if isinstance(each, bytes) else each.encode() for each in values)
    elif isinstance(values, bytes):
        made.raw_data = values
    else:
        data = array(element, shape, values)
        made.raw_data = (packed(element, data) if element in BITS else data).tobytes()
    return made


def tensor_type(element: str, shape: Any = None) -> onnx.TypeProto:
    """A tensor's type; a dimension is a number, a name or None; without a shape the rank is unknown."""
    return onnx.helper.make_tensor_type_proto(ELEMENTS.index(element), shape)


def sequence_type(inner: onnx.TypeProto) -> onnx.TypeProto:
    return onnx.helper.make_sequence_type_proto(inner)


def optional_type(inner: onnx.TypeProto) -> onnx.TypeProto:
    return onnx.helper.make_optional_type_proto(inner)


def value(name: str, element_or_type: Any = None, shape: Any = None) -> onnx.ValueInfoProto:
    """A named value with its type: a tensor's element type and shape, another type, or none at all."""
    if isinstance(element_or_type, str):
        element_or_type = tensor_type(element_or_type, shape)
    return onnx.ValueInfoProto(name=name, type=element_or_type)


def attribute(name: str, content: Any) -> onnx.AttributeProto:
    if isinstance(content, Empty):
        kind = onnx.AttributeProto.AttributeType.Value(content.kind.upper())
        return onnx.AttributeProto(name=name, type=kind, ref_attr_name=content.refers_to)
    return onnx.helper.make_attribute(name, content)


def attributes(given: Any) -> list[onnx.AttributeProto]:
    return [attribute(name, content) for name, content in dict(given).items()]


def node(
    operator: str,
    inputs: Any,
    outputs: Any,
    given: Any = (),
    name: str = "",
    domain: str = "",
    overload: str = "",
) -> onnx.NodeProto:
    made = onnx.NodeProto(op_type=operator, input=inputs, output=outputs, attribute=attributes(given))
    for field, text in (("name", name), ("domain", domain), ("overload", overload)):
        if text:
            setattr(made, field, text)
    return made


def graph(
    name: str, inputs: Any = (), outputs: Any = (), nodes: Any = (), constants: Any = (), values: Any = ()
) -> onnx.GraphProto:
    return onnx.GraphProto(
        name=name, input=inputs, output=outputs, node=nodes, initializer=constants, value_info=values
    )


def imports(opsets: Any) -> list[onnx.OperatorSetIdProto]:
    """The versions of the operator sets, by domain or as pairs."""
    pairs = opsets.items() if isinstance(opsets, dict) else opsets
    return [onnx.OperatorSetIdProto(domain=domain, version=version) for domain, version in pairs]


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
) -> onnx.FunctionProto:
    """A function of the model's own; `attributes` are those without a default, `defaults` those with one."""
    made = onnx.FunctionProto(domain=domain, name=name, input=inputs, output=outputs, node=nodes)
    made.attribute.extend(attributes)
    made.attribute_proto.extend(attribute(key, content) for key, content in dict(defaults).items())
    made.value_info.extend(values)
    made.opset_import.extend(imports(opsets))
    made.overload = overload
    return made


def model(ir_version: int, opsets: Any, graph: onnx.GraphProto, functions: Any = ()) -> onnx.ModelProto:
    return onnx.ModelProto(
        ir_version=ir_version, opset_import=imports(opsets), graph=graph, functions=functions
    )
