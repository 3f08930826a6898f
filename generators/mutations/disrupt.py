"""Broken programs, each with exactly one violation that is named: HirFuzz's disruptive generation (§3.1).

What a backend owes such a program is a clean refusal. Every function here breaks a model in place and says
how, or declines and leaves it as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper
from onnx.defs import OpSchema

from generators.growth.grow import Program
from generators.language.values import RandomSource
from oracles.relation.types import ALL, NUMPY, DType, Shape, TensorType

_DEFINED = ("", "ai.onnx.ml")
"""The operator sets whose schemas onnx has."""

_BROADCAST = ("Add", "Sub", "Mul", "Div", "Max", "Min", "And", "Or", "Xor", "Less", "Greater", "Equal")
_MOST = 2**31
_TOO_SMALL, _OUTSIDE = (0, -1, -_MOST), (9, -9, _MOST)
_BAD_INTS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("group", "blocksize", "num_outputs", "size", "num_heads"), _TOO_SMALL),
    **dict.fromkeys(("strides", "dilations", "kernel_shape", "hidden_size", "num_groups"), _TOO_SMALL),
    **dict.fromkeys(("pads", "output_padding", "output_height", "output_width"), (-1, -_MOST)),
    **dict.fromkeys(("axis", "axes", "perm"), _OUTSIDE),
    **dict.fromkeys(("batch_dims", "batch_axis", "time_axis"), (-1, -2, -3, 9, _MOST)),
    **dict.fromkeys(("to", "dtype", "aggregate_function"), (99, -1)),
}
"""Values that no operator with an attribute of this name allows, for programs of a rank up to 6."""
_WITHOUT_AXIS = ("QuantizeLinear", "DequantizeLinear")
"""Operators that do not look at their axis where a scale is for the whole tensor."""
_BAD_TEXTS = (
    *("mode", "auto_pad", "direction", "coordinate_transformation_mode", "nearest_mode", "equation"),
    *("aggregate_function", "kernel_type", "norm", "post_transform"),
)
_RANKED: Mapping[str, tuple[int, ...]] = {
    "Gemm": (0, 1),
    "Conv": (1,),
    "ConvTranspose": (1,),
    "BatchNormalization": (1, 2, 3, 4),
    "InstanceNormalization": (1, 2),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), (1, 2)),
    "GridSample": (1,),
    "RoiAlign": (1, 2),
}
"""Operands whose rank is fixed by the operator or by another operand."""
_CONTRACTED: Mapping[str, tuple[int, int]] = {
    "MatMul": (1, -2),
    "Conv": (1, 1),
    "ConvTranspose": (1, 0),
    "BatchNormalization": (1, 0),
    "InstanceNormalization": (1, 0),
    "STFT": (2, 0),
    "GroupNormalization": (1, 0),
    "GridSample": (1, 0),
    "RoiAlign": (2, 0),
}
"""An operand, and its dim that another operand fixes."""


class Breaking(NamedTuple):
    """A program that is being broken: its graph, the types of its values, the versions of operator sets."""

    draws: RandomSource
    graph: onnx.GraphProto
    types: Mapping[str, TensorType]
    versions: Mapping[str, int]

    def nodes(self) -> list[onnx.NodeProto]:
        """The operators that have schemas, in any order."""
        known = (node for node in self.graph.node if node.domain in _DEFINED)
        found = [node for node in known if node.op_type != "Constant"]
        return self.draws.sample(found, len(found))

    def foreign_nodes(self) -> list[onnx.NodeProto]:
        """Operators of other domains than ONNX's in any order."""
        found = [node for node in self.graph.node if node.domain]
        return self.draws.sample(found, len(found))

    def keeps_type(self, node: onnx.NodeProto) -> bool:
        """Whether a node's result has the type of its first operand."""
        return self.types.get(node.input[0]) == self.types.get(node.output[0])

    def schema_of(self, node: onnx.NodeProto) -> OpSchema:
        """The schema of a node whose operator set onnx knows."""
        return onnx.defs.get_schema(node.op_type, self.versions[node.domain], node.domain)

    def initializer(self, dtype: DType, shape: Shape) -> str:
        """A new initializer of ones."""
        name = f"violation_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.ones(shape, dtype=NUMPY[dtype]), name))
        return name


Violate = Callable[[Breaking], str | None]


def disrupt(draws: RandomSource, program: Program) -> tuple[onnx.ModelProto, str] | None:
    """The broken model, and its violation; None where none can be put into this program."""
    model = deepcopy(program.model)
    versions = {entry.domain: entry.version for entry in model.opset_import}
    at = Breaking(draws, model.graph, program.types, versions)
    orders = (draws.sample(kinds, len(kinds)) for kinds in (VIOLATIONS, FOREIGN))
    for violate in chain.from_iterable(orders):
        violation = violate(at)
        if violation:
            leave_shapes_open(model.graph)
            return model, violation
    return None


def leave_shapes_open(graph: onnx.GraphProto) -> None:
    """Remove declared shapes: after the change they may be wrong, and that would be a second violation."""
    for output in graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    del graph.value_info[:]


def _dtype(here: Breaking) -> str | None:
    """An operand of an element type that the operator does not take there, or not beside the others."""
    for node in here.nodes():
        formal = here.schema_of(node).inputs
        for at in here.draws.sample(range(len(node.input)), len(node.input)):
            own = here.types.get(node.input[at])
            if own is None or own.dtype not in ALL or at >= len(formal):
                continue
            other = here.draws.pick([dtype for dtype in ALL if dtype is not own.dtype])
            if _may_be(node, formal, at, other):
                continue
            node.input[at] = here.initializer(other, own.shape)
            return f"dtype: operand {at} of {node.name} is {other.name}, not {own.dtype.name}"
    return None


def _may_be(node: onnx.NodeProto, formal: Sequence[OpSchema.FormalParameter], at: int, other: DType) -> bool:
    """Whether an operand may be of another type: a type that operands share is shared by all of them."""
    text = next(name for name, dtype in _TYPES.items() if dtype is other)
    if text not in formal[at].types:
        return False
    given = [place for place, name in enumerate(node.input[: len(formal)]) if name and place != at]
    return all(formal[place].type_str != formal[at].type_str for place in given)


_TYPES = {
    f"tensor({name})": dtype
    for name, dtype in (
        *((str(NUMPY[dtype]), dtype) for dtype in ALL if dtype not in (DType.F32, DType.F64)),
        ("float", DType.F32),
        ("double", DType.F64),
    )
}


def _shape(here: Breaking) -> str | None:
    """Make an operand that has one dim which does not fit the other operand."""
    for node in here.nodes():
        if node.op_type in _BROADCAST and len(node.input) == 2:
            at, dim = 1, -1
        elif node.op_type in _CONTRACTED:
            at, dim = _CONTRACTED[node.op_type]
        else:
            continue
        own, first = here.types.get(node.input[at]), here.types.get(node.input[0])
        if own is None or first is None or not first.shape or (len(own.shape) < 2 and dim == -2):
            continue
        wanted = first.shape[-1] if node.op_type in _BROADCAST else own.shape[dim] if own.shape else 0
        if wanted < 2:
            continue
        shape = list(first.shape if node.op_type in _BROADCAST else own.shape)
        shape[dim] = wanted + 1
        node.input[at] = here.initializer(own.dtype, tuple(shape))
        return f"shape: operand {at} of {node.name} is {tuple(shape)}, with {wanted} needed for {wanted + 1}"
    return None


def _rank(here: Breaking) -> str | None:
    """An operand of one dim more than the operator takes, or a permutation of more axes than there are."""
    for node in here.nodes():
        if node.op_type == "Transpose" and node.attribute:
            rank = len(node.attribute[0].ints)
            node.attribute[0].ints.append(rank)
            return f"rank: {node.name} permutes {rank + 1} axes of {rank}"
        at = here.draws.pick(_RANKED.get(node.op_type, (len(node.input),)))
        own = here.types.get(node.input[at]) if at < len(node.input) else None
        if own is not None:
            shape = (1, *own.shape)
            node.input[at] = here.initializer(own.dtype, shape)
            return f"rank: operand {at} of {node.name} is {shape}, not {own.shape}"
    return None


def _attribute(here: Breaking) -> str | None:
    """A number or a word that an attribute does not allow, or an attribute that the operator has not."""
    for node in here.nodes():
        known = here.schema_of(node).attributes
        names = sorted(name for name in known if name in _BAD_INTS or name in _BAD_TEXTS)
        if node.op_type in _WITHOUT_AXIS:
            names = [name for name in names if name != "axis"]
        if not names and here.draws.chance(0.05):
            return _holds_unknown(node)
        for name in here.draws.sample(names, len(names)):
            text = _broken_attribute(here.draws, node, name, known[name].type)
            if text:
                return f"attribute: {name} of {node.name} {text}"
    return None


def _broken_attribute(
    draws: RandomSource, node: onnx.NodeProto, name: str, kind: OpSchema.AttrType
) -> str | None:
    """Set one of the attributes, which may be left out so far, to a value that is not allowed."""
    given = next((found for found in node.attribute if found.name == name), None)
    if name in _BAD_TEXTS and kind == OpSchema.AttrType.STRING:
        given = given or node.attribute.add(name=name, type=AttributeProto.STRING)
        given.s = b"no such word"
        return "is no word of its list"
    value = draws.pick(_BAD_INTS.get(name, (0,)))
    if name in _BAD_INTS and kind == OpSchema.AttrType.INT:
        given = given or node.attribute.add(name=name, type=AttributeProto.INT)
        given.i = value
        return f"is {value}"
    if given is not None and given.ints and kind == OpSchema.AttrType.INTS:
        at = draws.below(len(given.ints))
        given.ints[at] = value
        return f"holds {value} at {at}"
    return None


def _arity(here: Breaking) -> str | None:
    """One operand too few or too many."""
    for node in here.nodes():
        schema = here.schema_of(node)
        if schema.max_input > 8 or not schema.min_input:
            continue
        if here.draws.chance(0.5):
            most, given = schema.max_input, len(node.input)
            node.input.extend([node.input[0]] * (most + 1 - given))
            return f"arity: {node.name} has {most + 1} operands, at most {most} are allowed"
        del node.input[schema.min_input - 1 :]
        return f"arity: {node.name} has {len(node.input)} operands, at least {schema.min_input} are needed"
    return None


def _cycle(here: Breaking) -> str | None:
    """A node that needs its own result."""
    fitting = (node for node in here.nodes() if node.input and here.keeps_type(node))
    return next(map(_needs_itself, fitting), None)


def _needs_itself(node: onnx.NodeProto) -> str:
    node.input[0] = node.output[0]
    return f"cycle: {node.name} needs its own result"


def _dangling(here: Breaking) -> str | None:
    """An operand that nothing makes."""
    return next((_reads_nothing(node) for node in here.nodes() if node.input), None)


def _reads_nothing(node: onnx.NodeProto) -> str:
    node.input[0] = "nothing_makes_this"
    return f"dangling name: operand 0 of {node.name}"


def _opset(here: Breaking) -> str | None:
    """An operator that only a later opset has."""
    for node in here.nodes():
        is_plain = len(node.input) == 1 and not node.attribute and not node.domain
        if is_plain and here.keeps_type(node):
            node.op_type = "Gelu" if here.versions[""] < 20 else "Swish"
            return f"opset: {node.name} is {node.op_type}, which opset {here.versions['']} does not have"
    return None


def _list(here: Breaking) -> str | None:
    """A list of places, of words or of numbers beside others, as models of trees are made of."""
    found = (change_list(here.draws, node) for node in here.foreign_nodes())
    return next((f"list: {what}" for what in found if what is not None), None)


VIOLATIONS: tuple[Violate, ...] = (
    *(_dtype, _shape, _rank, _attribute, _arity, _cycle, _dangling, _opset, _list),
    *(_attribute, _attribute, _shape, _rank),
)
"""The kinds, those of which there are many forms more than once."""


def _unknown_operator(here: Breaking) -> str | None:
    """An operator that its domain does not have."""
    for node in here.foreign_nodes():
        node.op_type = "NothingOfThisName"
        return f"operator: {node.name} is {node.op_type}, which {node.domain} does not have"
    return None


def _unknown_attribute(here: Breaking) -> str | None:
    """An attribute that the operator does not have."""
    return next(map(_holds_unknown, here.foreign_nodes()), None)


def _holds_unknown(node: onnx.NodeProto) -> str:
    node.attribute.add(name="nothing_knows_this", type=AttributeProto.INT, i=1)
    return f"attribute: {node.name} has none of the name nothing_knows_this"


def _foreign_cycle(here: Breaking) -> str | None:
    """A node that needs its own result."""
    return next((_needs_itself(node) for node in here.foreign_nodes() if node.input), None)


def _foreign_dangling(here: Breaking) -> str | None:
    """An operand that nothing makes."""
    return next((_reads_nothing(node) for node in here.foreign_nodes() if node.input), None)


FOREIGN: tuple[Violate, ...] = (_unknown_operator, _unknown_attribute, _foreign_cycle, _foreign_dangling)
"""The kinds for programs without a node of ONNX that could be broken: they need no schema of ONNX."""


_ELEMENTS = (-1, 0, 1, 1000, -1000)
_FAR = (2**31, -(2**31), 2**62)
_NUMBERS = (0.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e30)


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
        return draws.pick(_NUMBERS)
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
