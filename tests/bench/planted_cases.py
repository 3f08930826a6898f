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


def relu_clip(program: Program) -> tuple[str, str]:
    dtype = program.floats()
    low = program.weight(np.array(-4, dtype))
    x = program.fed(dtype, program.shape(2))
    return program.add("Clip", program.add("Relu", x), low), dtype


def abs_neg(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(FLOATS + INTEGERS)
    return program.add("Abs", program.add("Neg", program.fed(dtype, program.shape(2)))), dtype


def sqrt_square(program: Program) -> tuple[str, str]:
    dtype = program.floats()
    x = program.fed(dtype, program.shape(3))
    return program.add("Sqrt", program.add("Mul", x, x)), dtype


def not_less(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(FLOATS + INTEGERS)
    x = program.fed(dtype, program.shape(2))
    return program.add("Cast", program.add("Not", program.add("Less", x, x)), to=1), "float32"


def div_mul(program: Program) -> tuple[str, str]:
    dtype, shape = program.integers(), program.shape(2)
    x, c = program.fed(dtype, shape), program.input(np.full(shape, 2, dtype))
    return program.add("Mul", program.add("Div", x, c), c), dtype


def max_min(program: Program) -> tuple[str, str]:
    dtype, shape = program.random.choice(FLOATS + INTEGERS), program.shape(2)
    a, b = program.fed(dtype, shape), program.fed(dtype, shape)
    return program.add("Max", a, program.add("Min", a, b)), dtype


def cast_cast(program: Program) -> tuple[str, str]:
    dtype = program.floats()
    x = program.add("Div", program.fed(dtype, program.shape(2)), program.weight(np.array(4, dtype)))
    narrow = program.add("Cast", x, to=program.random.choice((6, 7)))
    return program.add("Cast", narrow, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype))), dtype


def where_not(program: Program) -> tuple[str, str]:
    dtype, shape = program.random.choice(FLOATS + INTEGERS), program.shape(2)
    a, b = program.fed(dtype, shape), program.fed(dtype, shape)
    condition = program.add("Not", program.input(program.values("int64", shape) > 0))
    return program.add("Where", condition, a, b), dtype


def shift_back(program: Program) -> tuple[str, str]:
    dtype, shape = program.random.choice(("uint8", "uint32")), program.shape(1)
    x = program.input(np.full(shape, np.iinfo(dtype).max - 5, dtype))
    by = program.input(np.full(shape, 3, dtype))
    there = program.add("BitShift", x, by, direction="LEFT")
    back = program.add("BitShift", there, by, direction="RIGHT")
    return program.add("Cast", back, to=7), "int64"


def remainder(program: Program) -> tuple[str, str]:
    dtype, shape = program.integers(), program.shape(2)
    return program.add(
        "Mod", program.fed(dtype, shape), program.weight(np.full(shape, 4, dtype)), fmod=1
    ), dtype


def transposes(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(FLOATS + INTEGERS)
    side = program.random.choice((2, 3))
    x = program.fed(dtype, (side,) * 3)
    first, second = program.random.choice((((1, 0, 2), (0, 2, 1)), ((2, 1, 0), (1, 2, 0))))
    return program.add("Transpose", program.add("Transpose", x, perm=first), perm=second), dtype


def slice_concat(program: Program) -> tuple[str, str]:
    dtype, shape = program.random.choice(FLOATS + INTEGERS), program.shape(2)
    whole = program.add("Concat", program.fed(dtype, shape), program.fed(dtype, shape), axis=0)
    bounds = [program.weight(np.array([each], np.int64)) for each in (shape[0], 2 * shape[0], 0)]
    return program.add("Slice", whole, *bounds), dtype


def sum_transpose(program: Program) -> tuple[str, str]:
    dtype, side = program.random.choice(FLOATS + INTEGERS), program.random.choice((2, 3))
    moved = program.add("Transpose", program.fed(dtype, (side, side)), perm=[1, 0])
    return program.add("ReduceSum", moved, program.weight(np.array([0], np.int64)), keepdims=1), dtype


def gather_last(program: Program) -> tuple[str, str]:
    dtype, axis = program.random.choice(FLOATS + INTEGERS), program.random.choice((0, 1))
    x = program.fed(dtype, program.shape(2))
    return program.add("Gather", x, program.weight(np.array([-1, 0], np.int64)), axis=axis), dtype


def flatten(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(FLOATS + INTEGERS)
    return program.add("Flatten", program.fed(dtype, (2, 3, 4)), axis=program.random.choice((0, 2))), dtype


def cumsum(program: Program) -> tuple[str, str]:
    dtype = program.random.choice(FLOATS + INTEGERS)
    axis = program.weight(np.array(program.random.choice((0, 1)), np.int64))
    return program.add("CumSum", program.fed(dtype, program.shape(2)), axis, reverse=1), dtype


def argmax(program: Program) -> tuple[str, str]:
    dtype, shape = program.random.choice(FLOATS + INTEGERS), program.shape(2)
    tied = program.input(np.ones(shape, dtype))
    axis = program.random.choice((0, 1))
    return program.add("ArgMax", tied, axis=axis, select_last_index=1), "int64"


def pad_pool(program: Program) -> tuple[str, str]:
    dtype = program.floats()
    x = program.input(-np.abs(program.values(dtype, (1, 1, 3, 3))))
    pad = program.add("Pad", x, program.weight(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)))
    return program.add("MaxPool", pad, kernel_shape=[2, 2]), dtype


def gemm_relu(program: Program) -> tuple[str, str]:
    dtype = program.floats()
    a, b = (program.input(np.abs(program.values(dtype, (3, 3)))) for _ in range(2))
    alpha = program.random.choice((0.5, 2.0))
    return program.add("Relu", program.add("Gemm", a, b, alpha=alpha)), dtype


def leaky(program: Program) -> tuple[str, str]:
    dtype, shape = program.floats(), program.shape(2)
    x = program.add(
        "Add", program.input(-np.abs(program.values(dtype, shape))), program.weight(np.zeros(shape, dtype))
    )
    return program.add("LeakyRelu", x, alpha=program.random.choice((0.5, 0.25))), dtype


def softmax(program: Program) -> tuple[str, str]:
    dtype, shape = program.floats(), program.shape(2)
    x = program.add("Mul", program.fed(dtype, shape), program.weight(np.full(shape, 2, dtype)))
    return program.add("Softmax", x, axis=0), dtype


def layer_norm(program: Program) -> tuple[str, str]:
    dtype, shape = program.floats(), (2, 4)
    x = program.add("Add", program.fed(dtype, shape), program.weight(np.ones(shape, dtype)))
    scale = program.weight(np.ones(4, dtype))
    return program.add("LayerNormalization", x, scale, epsilon=program.random.choice((1.0, 4.0))), dtype


def quantised(program: Program) -> tuple[str, str]:
    x = program.fed("float32", program.shape(2))
    scale, zero = program.weight(np.float32(0.02)), program.weight(np.array(0, np.int8))
    return program.add(
        "DequantizeLinear", program.add("QuantizeLinear", x, scale, zero), scale, zero
    ), "float32"


def product(program: Program) -> tuple[str, str]:
    dtype, shape = program.floats(), program.shape(2)
    x = program.input(-np.abs(program.values(dtype, shape)))
    return program.add("ReduceProd", x, keepdims=1), dtype


FRAGMENTS: dict[str, Fragment] = {
    "drop_relu_before_clip": relu_clip,
    "drop_abs_of_neg": abs_neg,
    "drop_root_of_square": sqrt_square,
    "invert_less": not_less,
    "drop_product_of_quotient": div_mul,
    "take_minimum_for_maximum": max_min,
    "drop_chain_of_casts": cast_cast,
    "forget_negated_condition": where_not,
    "drop_shifts": shift_back,
    "take_sign_of_divisor": remainder,
    "merge_transposes": transposes,
    "slice_first_of_concat": slice_concat,
    "sum_through_transpose": sum_transpose,
    "gather_within_bounds": gather_last,
    "flatten_at_one": flatten,
    "reverse_nothing": cumsum,
    "take_first_of_ties": argmax,
    "fold_pad_into_pool": pad_pool,
    "forget_scale_of_gemm": gemm_relu,
    "forget_slope": leaky,
    "normalise_last_axis": softmax,
    "forget_epsilon": layer_norm,
    "drop_quantisation": quantised,
    "multiply_by_logarithms": product,
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
