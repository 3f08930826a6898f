"""From what has grown to an `onnx.ModelProto`, written field by field (`onnx.helper` is far slower)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import numpy as np
import onnx

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import language_in
from corpus.values import Tensor
from generators.language.profile import Budget, Counts
from generators.language.scope import Scope
from oracles.relation.program import Attribute, Body, Node, Operand
from oracles.relation.types import INT4, OPTIONALS, SEQUENCES, TENSORS, TEXT, DType, Shape, dtype_of, element

# The IR version that came with an opset, so that an old reader of that opset reads the model too.
_IR_VERSION = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}


def version_of(domain: str, opset: int) -> int:
    """The version of an operator set beside an opset of ONNX's own: what came with it, or the first."""
    if not domain:
        return opset
    return (5 if opset >= 21 else 4) if domain == "ai.onnx.ml" else 1


def write_model(
    scope: Scope, outputs: list[Operand], names: Mapping[int, str] | None = None
) -> onnx.ModelProto:
    """The model of everything in the scope; `names` stand for sizes in the inputs' shapes."""
    model = onnx.ModelProto(ir_version=_IR_VERSION[scope.opset], producer_name="tensorcrux")
    model.opset_import.add(domain="", version=scope.opset)
    for domain in sorted({node.domain for node in scope.nodes if node.domain}):
        model.opset_import.add(domain=domain, version=version_of(domain, scope.opset))
    graph = model.graph
    graph.name = "graph"
    for operand, _ in scope.inputs:
        _declare(graph.input.add(), operand)
        if names and operand.content is None and operand.dtype in TENSORS:
            shape = graph.input[-1].type.tensor_type.shape
            for dim in shape.dim:
                if dim.dim_value in names:
                    dim.dim_param = names[dim.dim_value]
    for operand in outputs:
        _declare(graph.output.add(), operand)
    _declare_contrib(graph, scope)
    _write_contents(graph, scope)
    return model


def _write_contents(graph: onnx.GraphProto, grown: Scope | Body) -> None:
    for name, array in grown.initializers:
        tensor = graph.initializer.add()
        tensor.name = name
        _fill(tensor, array)
    for name, array in grown.constants:
        node = graph.node.add(op_type="Constant", name=f"constant_{name}", output=(name,))
        _fill(node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t, array)
    for one in grown.nodes:
        _write_node(graph, one)


def _declare_contrib(graph: onnx.GraphProto, scope: Scope) -> None:
    """The types of inner results that only their own operator set can infer."""
    foreign = {name for node in scope.nodes if node.domain for name in node.results}
    shown = {info.name for info in graph.output}
    for operand in scope.pool:
        if operand.name in foreign and operand.name not in shown:
            _declare(graph.value_info.add(), operand)


def _write_node(graph: onnx.GraphProto, grown: Node) -> None:
    name = f"{grown.op_type}_{grown.results[0]}"
    node = graph.node.add(op_type=grown.op_type, name=name, input=grown.operands, output=grown.results)
    if grown.domain:
        node.domain = grown.domain
    for attribute, value in grown.attributes.items():
        _write_attribute(node.attribute.add(name=attribute), value)


def _write_attribute(proto: onnx.AttributeProto, value: Attribute) -> None:
    if isinstance(value, int):
        proto.type, proto.i = onnx.AttributeProto.INT, value
    elif isinstance(value, float):
        proto.type, proto.f = onnx.AttributeProto.FLOAT, value
    elif isinstance(value, str):
        proto.type, proto.s = onnx.AttributeProto.STRING, value.encode()
    elif isinstance(value, Body):
        proto.type = onnx.AttributeProto.GRAPH
        graph = proto.g
        graph.name = "body"
        for operand in value.inputs:
            _declare(graph.input.add(), operand)
        for operand in value.outputs:
            _declare(graph.output.add(), operand)
        _write_contents(graph, value)
    elif isinstance(value, tuple):
        _write_list(proto, value)
    else:
        proto.type = onnx.AttributeProto.TENSOR
        _fill(proto.t, value)


def _write_list(
    proto: onnx.AttributeProto, values: tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
) -> None:
    """A list of one type; an empty one is of integers."""
    if values and isinstance(values[0], float):
        proto.type = onnx.AttributeProto.FLOATS
        proto.floats.extend(float(value) for value in values)
    elif values and isinstance(values[0], str):
        proto.type = onnx.AttributeProto.STRINGS
        proto.strings.extend(str(value).encode() for value in values)
    else:
        proto.type = onnx.AttributeProto.INTS
        proto.ints.extend(int(value) for value in values)


def _declare(info: onnx.ValueInfoProto, operand: Operand) -> None:
    info.name = operand.name
    _declare_type(info.type, operand.dtype, operand.shape)


def _declare_type(proto: onnx.TypeProto, dtype: DType, shape: Shape) -> None:
    """The elements of a sequence are declared without a shape where there is none that says it."""
    if dtype in SEQUENCES:
        _declare_type(proto.sequence_type.elem_type, element(dtype), shape[1:])
        return
    if dtype in OPTIONALS:
        _declare_type(proto.optional_type.elem_type, element(dtype), shape)
        return
    tensor = proto.tensor_type
    tensor.elem_type = int(dtype)
    tensor.shape.SetInParent()
    for dim in shape:
        tensor.shape.dim.add(dim_value=dim)


def _fill(tensor: onnx.TensorProto, array: Tensor) -> None:
    dtype = dtype_of(array)
    tensor.data_type = int(dtype)
    tensor.dims.extend(array.shape)
    if dtype is TEXT:
        tensor.string_data.extend(str(item).encode() for item in array.reshape(-1).tolist())
    elif dtype in INT4:
        # Return two elements a byte, the first one in the lower half
        halves = array.reshape(-1).astype(np.int8).view(np.uint8) & 15
        pairs = np.append(halves, np.zeros(halves.size % 2, np.uint8)).reshape(-1, 2)
        packed: bytes = (pairs[:, 0] | (pairs[:, 1] << 4)).tobytes()
        tensor.raw_data = packed
    else:
        tensor.raw_data = array.tobytes()


class Made(Protocol):
    """A generated program, in the language whose format is `format`."""

    @property
    def format(self) -> str:
        """The format of its case."""

    def as_case(self, seed: int) -> Case:
        """The program as a case that names its seed as origin."""

    def counts(self) -> Counts:
        """Count the operators, and operators by dtype, shape and neighbour."""


def _as_it_is(mode: str, seed: int, program: Any) -> Case:
    case: Case = program.as_case(seed)
    return case


def _no_mutant(given: Case, seed: int, nodes: int, budget: Budget) -> Any:
    raise UserError(f"{given.origin}: to mutate, name an ONNX model of tensors without external data")


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language of programs, to what generates them; it leaves out what does not apply to its programs."""

    in_mode: Callable[[str, int, Any], Case] = _as_it_is
    """The case of a program as a mode has it: what it owes is a setting, what was done to it a note."""

    mutated: Callable[[Any, int, Case], Case] = lambda program, seed, case: case
    """The case of a valid program that was changed, so that what it declares may not hold."""

    called_again: Callable[[Any, int, Case], Case] = lambda program, seed, case: case
    """The case with earlier runs of what is compiled, with other sizes, if its program may have some."""

    mutant: Callable[[Case, int, int, Budget], Any] = _no_mutant
    """One to four changes to a user's case; UserError for one that nothing changes."""

    operators: Callable[[Any], set[str]] = lambda program: set()
    """The operators that a target's table must have; none where all its programs are the target's own."""

    forms: Callable[[Any], tuple[str, ...]] = lambda program: ()
    """The operators with the element types of their operands and results, for what releases refuse."""

    coverage: Callable[[Any], Mapping[str, int]] = lambda program: {}
    """Counts of operators and of pieces of coverage."""

    modes: Mapping[str, float] = field(default_factory=dict)
    """The shares of the modes among its programs of a mixture, the rest valid; none: the usual ones."""

    comes_small: bool = False
    """Whether a broken or endangered program of a mixture is mostly one of few nodes."""

    brings_passes: bool = False
    """Whether its programs come with the passes that suit their form, so that none are drawn for them."""

    strategies: Mapping[str, float] = field(default_factory=dict)
    """The strategies of its blocks of a mixture, with shares, where a target runs such programs as well."""

    keeps_bounds: bool = True
    """Whether its programs keep to a budget: a mixture that has one holds none of the others."""

    searches_inputs: bool = False
    """Whether inputs can be searched under which every value of a program is finite."""


@cache
def language_of(format: str) -> Language:
    """The language of that name, of which nothing is known where only users' own strategies make programs."""
    found: Language | None = language_in("generators.languages", format)
    return found or Language()
