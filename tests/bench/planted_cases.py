"""Programs that meet the planted faults: a fragment for each fault, among operators drawn at random."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from corpus.case import Case
from corpus.target import Target

OPSET = 21
FLOATS = ("float32", "float64")
INTEGERS = ("int32", "int64")


@dataclass
class Program:
    """A graph that grows: nodes in order, the values of its inputs, its weights."""

    random: random.Random
    nodes: list[NodeProto] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)

    def shape(self, rank: int) -> tuple[int, ...]:
        return tuple(self.random.choice((2, 3, 4)) for _ in range(rank))

    def values(self, dtype: str, shape: tuple[int, ...]) -> Any:
        """Numbers of both signs, some of them equal, none of them 0."""
        count = int(np.prod(shape))
        numbers = [self.random.choice((-7, -5, -3, -2, -1, 1, 2, 3, 5, 9)) for _ in range(count)]
        return np.array(numbers, dtype).reshape(shape)

    def input(self, value: Any) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = value
        return name

    def weight(self, value: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = value
        return name

    def add(self, operator: str, *operands: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(operands), [name], **attributes))
        return name

    def add_many(self, operator: str, operands: list[str], names: list[str], **attributes: Any) -> None:
        """A node with several results."""
        self.nodes.append(helper.make_node(operator, operands, names, **attributes))

    def fed(self, dtype: str, shape: tuple[int, ...]) -> str:
        """An operand: an input, of which some operators may have changed the values."""
        name = self.input(self.values(dtype, shape))
        for _ in range(self.random.randint(0, 3)):
            operator = self.random.choice(("Neg", "Add", "Sub", "Transpose", "Identity"))
            if operator in ("Add", "Sub"):
                name = self.add(operator, name, self.weight(self.values(dtype, shape)))
            elif operator == "Transpose" and dtype in FLOATS:
                name = self.add("Reshape", name, self.weight(np.array(shape, np.int64)))
            else:
                name = self.add("Identity" if operator == "Transpose" else operator, name)
        return name

    def floats(self) -> str:
        return self.random.choice(FLOATS)

    def integers(self) -> str:
        return self.random.choice(INTEGERS)


Fragment = Callable[[Program], tuple[str, str]]
"""Adds nodes; the name and the dtype of what they make."""

ANY = FLOATS + INTEGERS


def power(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(ANY)
    x = program.input(np.abs(program.values(dtype, program.shape(2))) + np.array(2, dtype))
    return program.add("Pow", x, program.weight(np.array(2, dtype))), dtype


def floor_div(program: Program) -> tuple[str, str]:
    dtype, shape = program.floats(), program.shape(2)
    x = program.add("Div", program.fed(dtype, shape), program.weight(np.full(shape, 4, dtype)))
    return program.add("Floor", x), dtype


def rounded(program: Program) -> tuple[str, str]:
    dtype, shape = program.floats(), program.shape(2)
    x = program.input(program.values(dtype, shape) + np.array(program.random.choice((0.6, 0.8)), dtype))
    return program.add("Round", x), dtype


def split_concat(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(ANY)
    x = program.input(np.arange(8, dtype=dtype).reshape(4, 2))
    parts = [f"part{len(program.nodes)}_{index}" for index in range(2)]
    program.add_many("Split", [x], parts, axis=0, num_outputs=2)
    return program.add("Concat", *reversed(parts), axis=0), dtype


def unsqueeze_squeeze(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(ANY)
    x = program.fed(dtype, (1, 3))
    here, there = (program.weight(np.array([axis], np.int64)) for axis in (2, 0))
    return program.add("Squeeze", program.add("Unsqueeze", x, here), there), dtype


def mean(program: Program) -> tuple[str, str]:
    dtype, shape = program.floats(), program.shape(2)
    x = program.input(np.abs(program.values(dtype, shape)))
    x = program.add("Mul", x, program.weight(np.full(shape, 3, dtype)))
    return program.add("ReduceMean", x, program.weight(np.array([1], np.int64)), keepdims=1), dtype


def greatest(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(ANY)
    axis = program.weight(np.array([program.random.choice((0, 1))], np.int64))
    return program.add("ReduceMax", program.fed(dtype, program.shape(2)), axis, keepdims=0), dtype


def smallest(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(ANY)
    x = program.input(np.arange(12, dtype=dtype).reshape(3, 4))
    names = [f"top{len(program.nodes)}_{index}" for index in range(2)]
    program.add_many("TopK", [x, program.weight(np.array([2], np.int64))], names, largest=0)
    return names[0], dtype


def transposed_product(program: Program) -> tuple[str, str]:
    dtype, side = program.random.choice(ANY), program.random.choice((2, 3))
    a, b = (program.input(program.values(dtype, (side, side))) for _ in range(2))
    a, b = (program.add("Transpose", each, perm=[1, 0]) for each in (a, b))
    return program.add("MatMul", a, b), dtype


def pad_conv(program: Program) -> tuple[str, str]:
    dtype = program.floats()
    x = program.fed(dtype, (1, 1, 3, 3))
    pad = program.add("Pad", x, program.weight(np.array([0, 0, 1, 1, 0, 0, 0, 0], np.int64)))
    return program.add("Conv", pad, program.weight(program.values(dtype, (1, 1, 2, 2)))), dtype


def average(program: Program) -> tuple[str, str]:
    dtype = program.floats()
    x = program.fed(dtype, (1, 1, 3, 3))
    return program.add("AveragePool", x, kernel_shape=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1), dtype


def clips(program: Program) -> tuple[str, str]:
    dtype, shape = program.random.choice(ANY), program.shape(2)
    wide = [program.weight(np.array(each, dtype)) for each in (-6, 8)]
    tight = [program.weight(np.array(each, dtype)) for each in (-1, 1)]
    return program.add("Clip", program.add("Clip", program.fed(dtype, shape), *wide), *tight), dtype


def not_and(program: Program) -> tuple[str, str]:
    shape = program.shape(2)
    a, b = np.zeros(shape, bool), np.ones(shape, bool)
    both = program.add("And", program.input(a), program.input(b))
    return program.add("Cast", program.add("Not", both), to=1), "float32"


def gather_elements(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(ANY)
    x = program.input(np.arange(9, dtype=dtype).reshape(3, 3))
    indices = program.weight(np.array([[0, 2, 1], [1, 1, 0], [2, 0, 0]], np.int64))
    return program.add("GatherElements", x, indices, axis=1), dtype


def triangle(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(ANY)
    offset = program.weight(np.array(program.random.choice((-1, 1)), np.int64))
    return program.add(
        "Trilu", program.fed(dtype, (3, 3)), offset, upper=program.random.choice((0, 1))
    ), dtype


def scatter(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(ANY)
    x = program.input(program.values(dtype, (3, 2)))
    indices = program.weight(np.array([[0, 2]], np.int64))
    updates = program.input(np.full((1, 2), 4, dtype))
    return program.add("ScatterElements", x, indices, updates, axis=0, reduction="add"), dtype


def three(program: Program) -> tuple[str, str]:
    dtype, shape = program.floats(), program.shape(2)
    return program.add("Sum", *(program.fed(dtype, shape) for _ in range(3))), dtype


def union(program: Program) -> tuple[str, str]:
    dtype, shape = program.integers(), program.shape(2)
    a, b = (program.input(np.full(shape, each, dtype)) for each in (6, 3))
    return program.add("BitwiseOr", a, b), dtype


FRAGMENTS: dict[str, Fragment] = {
    "double_for_square": power,
    "drop_floor_of_quotient": floor_div,
    "round_down": rounded,
    "take_inner_bounds": clips,
    "negate_wrongly": not_and,
    "add_two_of_three": three,
    "take_xor_for_or": union,
    "join_what_was_split": split_concat,
    "drop_added_axis": unsqueeze_squeeze,
    "keep_reduced_axes": greatest,
    "take_largest": smallest,
    "multiply_before_transposing": transposed_product,
    "gather_along_first": gather_elements,
    "forget_diagonal": triangle,
    "overwrite_for_add": scatter,
    "mean_by_sum": mean,
    "pad_at_the_other_end": pad_conv,
    "leave_padding_out": average,
}


def planted_case(fault: str, fragment: Fragment, seed: int) -> Case:
    """A program that meets the fault by its fragment, among up to eight other operators."""
    program = Program(random.Random(f"{fault}/{seed}"))
    aside, _ = around(program, program.fed("float32", program.shape(2)), "float32")
    made, dtype = fragment(program)
    result, _ = around(program, made, dtype)
    return finish(program, [result, aside])


def around(program: Program, name: str, dtype: str) -> tuple[str, str]:
    """A few operators more, none of which hides a difference."""
    for _ in range(program.random.randint(0, 3)):
        operator = program.random.choice(("Neg", "Identity", "Add", "Sub"))
        if operator in ("Add", "Sub"):
            name = program.add(operator, name, program.weight(np.array(1, dtype)))
        else:
            name = program.add(operator, name)
    return name, dtype


def finish(program: Program, outputs: list[str]) -> Case:
    """The model of a program, its outputs without types: they are inferred when it is judged."""
    graph = helper.make_graph(
        program.nodes,
        "planted",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in program.inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(outputs)],
        [numpy_helper.from_array(value, name) for name, value in program.weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return Case("onnx", model.SerializeToString(), dict(program.inputs), Target("planted"))
