"""Broken programs, each with exactly one violation that is named: HirFuzz's disruptive generation (§3.1).

What a backend owes such a program is a clean refusal. Every function here breaks a model in place and says
how, or declines and leaves it as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

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
    for violate in (*draws.sample(VIOLATIONS, len(VIOLATIONS)), _operator):
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
            node.attribute.add(name="nothing_knows_this", type=AttributeProto.INT, i=1)
            return f"attribute: {node.name} has none of the name nothing_knows_this"
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
    for node in here.nodes():
        if node.input and here.keeps_type(node):
            node.input[0] = node.output[0]
            return f"cycle: {node.name} needs its own result"
    return None


def _dangling(here: Breaking) -> str | None:
    """An operand that nothing makes."""
    for node in here.nodes():
        if node.input:
            node.input[0] = "nothing_makes_this"
            return f"dangling name: operand 0 of {node.name}"
    return None


def _opset(here: Breaking) -> str | None:
    """An operator that only a later opset has."""
    for node in here.nodes():
        is_plain = len(node.input) == 1 and not node.attribute and not node.domain
        if is_plain and here.keeps_type(node):
            node.op_type = "Gelu" if here.versions[""] < 20 else "Swish"
            return f"opset: {node.name} is {node.op_type}, which opset {here.versions['']} does not have"
    return None


VIOLATIONS: tuple[Violate, ...] = (
    *(_dtype, _shape, _rank, _attribute, _arity, _cycle, _dangling, _opset),
    *(_attribute, _attribute, _shape, _rank),
)
"""The kinds, those of which there are many forms more than once."""


def _operator(here: Breaking) -> str | None:
    """An operator that its domain does not have: of domains without schemas nothing else can be broken."""
    for node in (each for each in here.graph.node if each.domain):
        node.op_type = "NothingOfThisName"
        return f"operator: {node.name} is {node.op_type}, which {node.domain} does not have"
    return None
