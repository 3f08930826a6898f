"""What is done to a program before it is a case, and what the case then owes.

A valid program must run and give right results, of NaN and infinity too where these are defined; a broken one
must be refused, an endangered one survived.

An index out of range, a NaN, a count of 0, an axis below the first, a window of no elements, an operand left
out: nobody says whether it is allowed. What a backend owes such a program is to survive it.

Where they enter others beside it, what these make of them is nobody's bug, which the judge knows.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from enum import StrEnum
from math import prod
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper
from onnx.defs import OpSchema

from corpus.case import Case, Remark
from corpus.onnx.types import element_type
from corpus.values import Tensor, Value
from generators.disrupt import disrupt, leave_shapes_open
from generators.growth.grow import Program
from generators.language.values import RandomSource, with_some_nonfinite
from oracles.operators import arithmetic_of
from oracles.relation.arithmetic import Nonfinite
from oracles.relation.program import MAX_ELEMENTS
from oracles.relation.types import TensorType
from oracles.verdict import REFUSAL, SURVIVAL

_FLOATS = (np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e-40, 1e30, -1.0, 0.0)
_INTS = (-1, 0, 1, -1000)
_COUNTS = (0, -1, -2, 1, 3, 1000, -1000)
_NUMBERS = (0.0, -1.0, np.nan, np.inf, -np.inf, 1e30)
_STEERING = 0.7
"""How often it is an operand behind the first that changes, where there is one."""


class Endangered(NamedTuple):
    """A program under change."""

    graph: onnx.GraphProto
    inputs: dict[str, Value]
    opset: int
    types: Mapping[str, TensorType]

    def given(self) -> dict[str, onnx.TensorProto]:
        """The initializers, and what Constants hold, by name."""
        found = {tensor.name: tensor for tensor in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Constant" and node.attribute[0].HasField("t"):
                found[node.output[0]] = node.attribute[0].t
        return found

    def operands(self, draws: RandomSource) -> Iterator[tuple[str, str, Tensor]]:
        """Yield the operands that are given: their place in words, their name and content; in any order."""
        given = self.given()
        places = [
            (node, at)
            for node in self.graph.node
            for at, name in enumerate(node.input)
            if name in given or isinstance(self.inputs.get(name), np.ndarray)
        ]
        if draws.chance(_STEERING):
            places = [place for place in places if place[1]] or places
        for node, at in draws.sample(places, len(places)):
            name = node.input[at]
            value = self.inputs[name] if name in self.inputs else numpy_helper.to_array(given[name])
            if isinstance(value, np.ndarray):
                yield f"operand {at} of {node.name}", name, value

    def dims_beside(self, name: str) -> list[int]:
        """The dims of the other operands of the nodes that read a value."""
        readers = [node for node in self.graph.node if name in node.input]
        beside = {other for node in readers for other in node.input if other not in ("", name)}
        return sorted({dim for other in beside if other in self.types for dim in self.types[other].shape})

    def put(self, name: str, array: Tensor) -> None:
        """Another content for an input, an initializer or a Constant."""
        if name not in self.inputs:
            self.given()[name].CopyFrom(numpy_helper.from_array(array, name))
            return
        self.inputs[name] = array
        for info in self.graph.input:
            if info.name == name:
                del info.type.tensor_type.shape.dim[:]
                for dim in array.shape:
                    info.type.tensor_type.shape.dim.add(dim_value=dim)


Endanger = Callable[[RandomSource, Endangered], str | None]
"""Changes one thing in place and says what, or declines and leaves it all as it is."""


def endanger(draws: RandomSource, program: Program) -> tuple[Program, str] | None:
    """The program with one thing changed, and which; None where nothing can be."""
    model = deepcopy(program.model)
    opset = next(entry.version for entry in model.opset_import if not entry.domain)
    changing = Endangered(model.graph, dict(program.inputs), opset, program.types)
    for change in draws.sample(HAZARDS, len(HAZARDS)):
        what = change(draws, changing)
        if what:
            leave_shapes_open(model.graph)
            return Program(model, changing.inputs, program.types, program.ranges), what
    return None


def _value(draws: RandomSource, program: Endangered) -> str | None:
    """One element, or each, of an operand that is given."""
    for place, name, array in program.operands(draws):
        changed = _changed(draws, array)
        if changed is not None:
            program.put(name, changed[0])
            return f"{place} {changed[1]}"
    return None


def _changed(draws: RandomSource, array: Tensor) -> tuple[Tensor, str] | None:
    """The array with one element, or each, of another value; None where the type has no such values."""
    if array.dtype.kind not in "iuf" or not array.size:
        return None
    after = array.copy()
    everywhere = draws.chance(0.3)
    with np.errstate(all="ignore"):
        value = np.array(draws.pick(_values(array, everywhere))).astype(array.dtype)
    if everywhere:
        after[...] = value
        return after, f"holds {value} everywhere"
    at = draws.below(array.size)
    after.reshape(-1)[at] = value
    return after, f"holds {value} at {at}"


def _beyond(draws: RandomSource, program: Endangered) -> str | None:
    """An index or a length that is the first beyond a dim of another operand, from either end."""
    for place, name, array in program.operands(draws):
        dims = program.dims_beside(name)
        if array.dtype.kind not in "iu" or array.dtype.itemsize < _INDEX_BYTES or not array.size or not dims:
            continue
        after, at, dim = array.copy(), draws.below(array.size), draws.pick(dims)
        beyond = draws.pick((dim, dim + 1, 2 * dim, *((-dim - 1,) if array.dtype.kind == "i" else ())))
        after.reshape(-1)[at] = beyond
        program.put(name, after)
        return f"{place} holds {beyond} at {at}"
    return None


_INDEX_BYTES = 4
"""Integers of fewer bytes are quantised values."""


def _values(array: Tensor, everywhere: bool) -> tuple[float, ...]:
    """Dangerous values of the type, but sizes that only fill the memory: where it is one, it is one alone."""
    if array.dtype.kind == "f":
        return _FLOATS
    limits = np.iinfo(array.dtype)
    far = (1000,) if not everywhere else ()
    most = (int(limits.max),) if limits.bits == 64 else ()
    return (*_INTS, *far, int(limits.min), *most)


def _length(draws: RandomSource, program: Endangered) -> str | None:
    """One dim of an operand that is given: none, one, or one more or less than there were."""
    for place, name, array in program.operands(draws):
        if not array.ndim or array.dtype.kind not in "iufb":
            continue
        axis = draws.below(array.ndim)
        dim = array.shape[axis]
        other = draws.pick([size for size in (0, 0, 1, dim - 1, dim + 1, 2 * dim) if 0 <= size != dim])
        shape = (*array.shape[:axis], other, *array.shape[axis + 1 :])
        if prod(shape) <= MAX_ELEMENTS:
            program.put(name, np.resize(array, shape))
            return f"{place} is {shape}, not {array.shape}"
    return None


def _attribute(draws: RandomSource, program: Endangered) -> str | None:
    """A number of an attribute; of ONNX's operators also of one that was left out."""
    nodes = [node for node in program.graph.node if node.op_type != "Constant"]
    for node in draws.sample(nodes, len(nodes)):
        known = _attribute_kinds(node, program.opset)
        for name in draws.sample(sorted(known), len(known)):
            value = _number(draws, node, name, known[name])
            if value is not None:
                return f"attribute {name} of {node.name} is {value}"
    return None


def _attribute_kinds(node: NodeProto, opset: int) -> Mapping[str, OpSchema.AttrType]:
    """The attributes that a node may have; of another domain's operators, those that it has."""
    if node.domain:
        names = {each.name: AttributeProto.AttributeType.Name(each.type) for each in node.attribute}
        return {name: getattr(OpSchema.AttrType, kind) for name, kind in names.items()}
    known = onnx.defs.get_schema(node.op_type, opset).attributes
    return {name: attribute.type for name, attribute in known.items()}


def _number(draws: RandomSource, node: onnx.NodeProto, name: str, kind: OpSchema.AttrType) -> float | None:
    """Set an attribute, or one of its numbers; None where it is of another kind."""
    given = next((found for found in node.attribute if found.name == name), None)
    if kind == OpSchema.AttrType.INT:
        given = given or node.attribute.add(name=name, type=AttributeProto.INT)
        given.i = draws.pick(_COUNTS)
        return int(given.i)
    if kind == OpSchema.AttrType.FLOAT:
        given = given or node.attribute.add(name=name, type=AttributeProto.FLOAT)
        given.f = draws.pick(_NUMBERS)
        return float(given.f)
    if kind == OpSchema.AttrType.INTS and given is not None and given.ints:
        at = draws.below(len(given.ints))
        given.ints[at] = draws.pick(_COUNTS)
        return int(given.ints[at])
    return None


def _list(draws: RandomSource, program: Endangered) -> str | None:
    """A list that an attribute holds."""
    nodes = [node for node in program.graph.node if node.op_type != "Constant"]
    found = (change_list(draws, node) for node in draws.sample(nodes, len(nodes)))
    return next((what for what in found if what is not None), None)


_ELEMENTS = (-1, 0, 1, 1000, -1000)
_FAR = (2**31, -(2**31), 2**62)
_LIST_NUMBERS = (0.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e30)


def change_list(draws: RandomSource, node: onnx.NodeProto) -> str | None:
    """Change a list that an attribute of a node holds, and say how: an element, its length, or all of it.

    A number becomes its own place, the length or a far one: where it is the place of something else, that is
    the element itself, or nothing.
    """
    held = [each for each in node.attribute if _items(each)]
    if not held:
        return None
    attribute = draws.pick(held)
    items = _items(attribute)
    at, form = draws.below(len(items)), draws.random()
    if form < 0.15:
        items, what = items[:-1], "lacks its last element"
    elif form < 0.25:
        items, what = [*items, items[at]], f"holds another {items[at]} behind its last element"
    elif form < 0.3:
        items, what = [], "is empty"
    else:
        items[at] = _other_element(draws, items, at, is_foreign=bool(node.domain))
        what = f"holds {items[at]!r} at {at}"
    _set_items(attribute, items)
    return f"attribute {attribute.name} of {node.name} {what}"


def _items(attribute: onnx.AttributeProto) -> list[Any]:
    """The elements of a list, or of a tensor of rank 1."""
    if attribute.type == AttributeProto.TENSOR:
        array = numpy_helper.to_array(attribute.t)
        return list(array.tolist()) if array.ndim == 1 else []
    return [*attribute.ints, *attribute.floats, *attribute.strings]


def _other_element(draws: RandomSource, items: list[Any], at: int, is_foreign: bool) -> Any:
    """ONNX's own operators read sizes in their lists: far ones would only fill the memory."""
    own = items[at]
    if draws.chance(0.2):
        return draws.pick(items)
    if isinstance(own, int):
        return draws.pick((*_ELEMENTS, at, at + 1, len(items), *(_FAR if is_foreign else ())))
    if isinstance(own, float):
        return draws.pick(_LIST_NUMBERS)
    other = "" if draws.chance(0.3) else "no such word"
    return other if isinstance(own, str) else other.encode()


def _set_items(attribute: onnx.AttributeProto, items: list[Any]) -> None:
    if attribute.type == AttributeProto.TENSOR:
        before = numpy_helper.to_array(attribute.t)
        with np.errstate(all="ignore"):
            array = np.array(items, object if before.dtype.kind == "O" else None).astype(before.dtype)
        attribute.t.CopyFrom(numpy_helper.from_array(array, attribute.t.name))
        return
    for field in (attribute.ints, attribute.floats, attribute.strings):
        if field:
            del field[:]
            field.extend(items)


def _omission(draws: RandomSource, program: Endangered) -> str | None:
    """An operand behind the first is left out."""
    places = [(node, at) for node in program.graph.node for at, name in enumerate(node.input) if at and name]
    if not places:
        return None
    node, at = draws.pick(places)
    node.input[at] = ""
    return f"operand {at} of {node.name} is left out"


HAZARDS: tuple[Endanger, ...] = (
    *(_value, _value, _value, _attribute, _attribute, _length, _length, _omission),
    *(_beyond, _beyond, _list, _list),
)
"""The kinds, those of which there are many forms more than once."""


_MAY_BE_NONFINITE = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)


def put_nonfinite(draws: RandomSource, program: Program) -> Program | None:
    """The program with some elements of one input not finite; None where no input can be."""
    names = sorted(_takers(program, _looks)) or sorted(_takers(program, _defines))
    if not names:
        return None
    name = draws.pick(names)
    array = program.inputs[name]
    assert isinstance(array, np.ndarray)
    return replace(program, inputs={**program.inputs, name: with_some_nonfinite(draws, array)})


def _looks(node: NodeProto) -> bool:
    """Whether an operator of ONNX looks at its values and does not only move them."""
    return not node.domain and arithmetic_of(node).nonfinite is Nonfinite.DEFINED


def _defines(node: NodeProto) -> bool:
    return arithmetic_of(node).defines_nonfinite


def _takers(program: Program, is_taker: Callable[[NodeProto], bool]) -> Iterator[str]:
    """Yield the float inputs that at least one of these nodes reads."""
    read = {name for node in program.model.graph.node if is_taker(node) for name in node.input}
    for name, value in program.inputs.items():
        is_float = (
            isinstance(value, np.ndarray) and value.size and element_type(value.dtype) in _MAY_BE_NONFINITE
        )
        if is_float and name in read:
            yield name


class Mode(StrEnum):
    """Valid programs; broken ones; ones with one dangerous thing; valid ones of values that are not finite.

    Or all of these, mostly valid ones.
    """

    STRICT = "strict"
    DISRUPTIVE = "disruptive"
    VULNERABLE = "vulnerable"
    NONFINITE = "nonfinite"
    MIXED = "mixed"


MODE_SHARES = {Mode.DISRUPTIVE: 0.06, Mode.VULNERABLE: 0.1, Mode.NONFINITE: 0.08, Mode.STRICT: 0.76}
"""The shares of a mixture; no value but a finite one fits two in three of those that are not finite."""


def mode_of(mode: Mode, seed: int, shares: Mapping[str, float]) -> Mode:
    """The mode of one program of a mixture, by the shares of its language; any other mode is everyone's."""
    if mode is not Mode.MIXED:
        return mode
    form = RandomSource(f"which mode/{seed}").random()
    for each, share in (shares or MODE_SHARES).items():
        if form < share:
            return Mode(each)
        form -= share
    return Mode.STRICT


def in_mode(mode: str, seed: int, program: Program) -> Case:
    """The case of a program as the mode has it: what it owes is a setting, what was done to it a note.

    It is whole where nothing fits it.
    """
    draws = RandomSource(f"mode/{seed}")
    if mode == Mode.DISRUPTIVE and (broken := disrupt(draws, program)):
        changed, demand, note = replace(program, model=broken[0]), REFUSAL, Remark.VIOLATION.note(broken[1])
    elif mode == Mode.VULNERABLE and (endangered := endanger(draws, program)):
        changed, demand, note = endangered[0], SURVIVAL, Remark.HAZARD.note(endangered[1])
    elif mode == Mode.NONFINITE and (special := put_nonfinite(draws, program)):
        return special.as_case(seed)
    else:
        return program.as_case(seed)
    return replace(replace(changed, fires=()).as_case(seed), settings=(demand,), notes=(note,))
