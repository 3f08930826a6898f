"""Optimisation patterns as the generator takes them: each node one of its operators, with its attributes.

A pattern that holds an operator, an attribute or a body that the generator has no rule for has no recipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import AttributeProto, numpy_helper

from corpus.pattern import Pattern
from corpus.values import Tensor
from generators.language.profile import qualified_name
from oracles.operators import known_operator
from oracles.relation.operator import Operator
from oracles.relation.program import FIRST_OPSET, LAST_OPSET, Attribute, DTypeFamily, Kind
from oracles.relation.types import DType, Range, is_float

Dims = tuple[int | str, ...]
"""An axis is of a size, or of any size; the same one wherever its name stands."""

_CODES = frozenset(map(int, DType))
_DIVIDING = frozenset(("Div", "Mod"))
_FREE = (Kind.ARITHMETIC, Kind.COMPARE, Kind.LOGIC, Kind.MATH)
"""Of these classes no operand steers."""
_OF_DATA = (*_FREE, Kind.LINEAR, Kind.PART)
"""Of these a float after the first operand is data like that one."""
_SETTING = Range(0.1, 0.9)
"""Of others it is a ratio, a scale, a variance or a bound."""


@dataclass(frozen=True, slots=True)
class Hole:
    """An input of a pattern: what may be put there.

    `within` is where its values must lie for what reads it to be defined; one that `steers` is all zeros,
    which as an index is in range wherever anything is.
    """

    name: str
    dtype: DType
    dims: Dims
    within: Range | None = None
    steers: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """One operator of a pattern; empty names stand for operands that are left out."""

    operator: Operator
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A pattern that can be put into a program of one of these opsets."""

    pattern: Pattern
    opsets: tuple[int, int]
    slots: tuple[Hole, ...]
    constants: Mapping[str, Tensor]
    uses: tuple[Use, ...]
    outputs: frozenset[str]
    least: Mapping[str, int]

    @property
    def fires(self) -> str:
        """The pass that the pattern is for."""
        return self.pattern.fires

    @property
    def nodes(self) -> int:
        """Count the nodes that the recipe takes."""
        return len(self.uses)


def recipe_of(pattern: Pattern) -> Recipe | None:
    """Return None for a pattern that the generator cannot put into a program."""
    graph = pattern.graph
    try:
        uses = [_use(node) for node in graph.node if node.op_type != "Constant"]
        constants = {tensor.name: _array(tensor) for tensor in graph.initializer}
        constants |= {node.output[0]: _constant(node) for node in graph.node if node.op_type == "Constant"}
        slots = [_slot(info, uses) for info in graph.input]
    except NoRule:
        return None
    first = max(FIRST_OPSET, pattern.opsets[0], *(use.operator.since for use in uses))
    last = min(LAST_OPSET, pattern.opsets[1], *(use.operator.until for use in uses))
    if first > last or all(slot.steers for slot in slots):
        return None
    outputs = frozenset(info.name for info in graph.output)
    least = dict(pattern.least)
    return Recipe(pattern, (first, last), tuple(slots), constants, tuple(uses), outputs, least)


class NoRule(Exception):
    """The generator does not know such a thing."""


def _use(node: onnx.NodeProto) -> Use:
    operator = known_operator(qualified_name(node))
    if operator is None or operator.realm is DTypeFamily.ATEN or not node.input or not node.input[0]:
        raise NoRule(node.op_type)
    attributes = {each.name: _attribute(each) for each in node.attribute}
    return Use(operator, tuple(node.input), tuple(node.output), attributes)


def _attribute(proto: AttributeProto) -> Attribute:
    match proto.type:
        case AttributeProto.INT:
            return int(proto.i)
        case AttributeProto.FLOAT:
            return float(proto.f)
        case AttributeProto.STRING:
            return str(proto.s.decode())
        case AttributeProto.INTS:
            return tuple(map(int, proto.ints))
        case AttributeProto.FLOATS:
            return tuple(map(float, proto.floats))
        case AttributeProto.STRINGS:
            return tuple(text.decode() for text in proto.strings)
        case AttributeProto.TENSOR:
            return _array(proto.t)
    raise NoRule(proto.name)


def _array(tensor: onnx.TensorProto) -> Tensor:
    array: Tensor = numpy_helper.to_array(tensor)
    if array.dtype.kind == "O":
        array = array.astype(str)
    return array


def _constant(node: onnx.NodeProto) -> Tensor:
    found = [each.t for each in node.attribute if each.name == "value"]
    if not found:
        raise NoRule("Constant")
    return _array(found[0])


def _slot(info: onnx.ValueInfoProto, uses: Sequence[Use]) -> Hole:
    tensor = info.type.tensor_type
    if tensor.elem_type not in _CODES or not tensor.HasField("shape"):
        raise NoRule(info.name)
    dtype = DType(tensor.elem_type)
    dims = tuple(dim.dim_param or int(dim.dim_value) for dim in tensor.shape.dim)
    places = [(use, at) for use in uses for at, name in enumerate(use.operands) if name == info.name]
    steers = not is_float(dtype) and any(at and use.operator.kind not in _FREE for use, at in places)
    return Hole(info.name, dtype, dims, _domain(dtype, places), steers)


def _domain(dtype: DType, places: Iterable[tuple[Use, int]]) -> Range | None:
    """The domain of the first operator that has one; a divisor stays away from zero."""
    for use, at in places:
        if not at and use.operator.domain is not None:
            return use.operator.domain
        if at == 1 and use.operator.name in _DIVIDING:
            return Range(1, 9)
        if at and is_float(dtype) and use.operator.kind not in _OF_DATA:
            return _SETTING
    return None
