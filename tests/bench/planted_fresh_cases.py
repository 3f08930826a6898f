"""Programs that meet the fresh set of planted faults: a fragment for each, as in `planted_cases`."""

import numpy as np

from tests.bench.planted_cases import FLOATS, INTEGERS, Fragment, Program

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
