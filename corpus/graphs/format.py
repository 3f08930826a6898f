"""What the formats of graphs have in common: reading their document, making inputs, limits."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpus.errors import UserError
from corpus.external import ExternalFile
from corpus.graphs.program import GraphProgram, Input, dtype_of, parse_program, tag_of
from corpus.values import InputType, Shape, Tensor, Value

MOST_BYTES = 1 << 30
HEAD = 64 << 10
SIZES = (2, 3, 4, 5)


@dataclass(frozen=True)
class GraphFormat:
    """One format of graphs, by its name; the functions are those of the `Format` protocol."""

    name: str

    def read_program(self, path: Path, memory_bytes: int) -> bytes:
        """The document's bytes; UserError for what cannot be one."""
        return read_limited(path, min(memory_bytes, MOST_BYTES), f"no {self.name} program")

    def parse(self, program: bytes, where: str = "program") -> GraphProgram:
        """The program; UserError when it is none."""
        return parse_program(program, self.name, where)


def read_limited(path: Path, most: int, what: str) -> bytes:
    """A regular file's bytes; UserError for one that is empty, too large or cannot be read."""
    try:
        size = path.stat().st_size if path.is_file() else -1
        if size <= 0 or size > most:
            why = "not a regular file" if size < 0 else "empty" if not size else f"{size} bytes, over {most}"
            raise UserError(f"{path}: {why}, so {what}; name another file")
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error


def mentions(path: Path, pattern: str) -> bool:
    """Whether the beginning of a text matches: what tells scripts of two frameworks apart."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except OSError:
        return False
    return re.search(pattern, head.decode("utf-8", "replace"), re.MULTILINE) is not None


def check(program: GraphProgram, where: str, memory_bytes: int) -> None:
    """UserError where an input's static dims alone exceed the memory, or its dtype is not known."""
    for item in program.main.inputs:
        dtype = dtype_of(item.dtype)
        if dtype is None:
            raise UserError(
                f"{where}: input {item.name!r} is of dtype {item.dtype!r:.40}, which is not known"
            )
        static = [dim for dim in item.shape if isinstance(dim, int)]
        size = math.prod(static) * dtype.itemsize
        if size > memory_bytes or any(dim < 0 for dim in static):
            raise UserError(
                f"{where}: input {item.name!r} takes {size} bytes, over the memory limit of {memory_bytes};"
                " make it smaller or raise --memory"
            )


def external_files(program: GraphProgram, folder: Path, where: str) -> tuple[ExternalFile, ...]:
    """None: constants are in the document."""
    return ()


def input_types(program: GraphProgram, where: str) -> dict[str, InputType]:
    """What the program takes, in order; a dim that is computed from others is of any size."""
    types: dict[str, InputType] = {}
    for item in program.main.inputs:
        dtype = dtype_of(item.dtype)
        if dtype is None:
            raise UserError(
                f"{where}: input {item.name!r} is of dtype {item.dtype!r:.40}, which is not known"
            )
        types[item.name] = InputType(dtype, item.shape)
    return types


def read_test_data(folder: Path, types: Mapping[str, InputType], memory_bytes: int) -> dict[str, Value]:
    """Refuse ONNX's way of keeping inputs; raises `UserError`."""
    raise UserError(f"{folder}: inputs of such a program are kept in an .npz; name one")


def make_inputs(program: GraphProgram, seed: int) -> dict[str, Value]:
    """Small values; a symbolic dim has one size everywhere."""
    passed = {item.name: passed_dims(item) for item in program.main.inputs}
    names = symbols([*(item.shape for item in program.main.inputs), *passed.values()])
    sizes = {name: SIZES[(seed + place) % len(SIZES)] for place, name in enumerate(names)}
    made: dict[str, Value] = {}
    for place, item in enumerate(program.main.inputs):
        rng = np.random.default_rng([seed % (1 << 63), place])
        if passed[item.name]:
            made[item.name] = np.array(concrete(passed[item.name], sizes), item.dtype)
        else:
            made[item.name] = _drawn(item.dtype, concrete(item.shape, sizes), rng)
    return made


def passed_dims(item: Input) -> Shape:
    """The dims that an input's own values are, where it is declared to be a shape of such."""
    dims = item.declared["shape_type"][0] if tag_of(item.declared) == "shape_type" else None
    return tuple(dims or ())


def _drawn(dtype_name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    dtype = dtype_of(dtype_name) or np.dtype(np.float32)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0, 4, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def symbols(shapes: object) -> tuple[str, ...]:
    """The names in dims, in order of first use."""
    texts = [dim for shape in shapes for dim in shape if isinstance(dim, str)]  # type: ignore[attr-defined]
    return tuple(dict.fromkeys(name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)))


def concrete(shape: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape's sizes where its names have these; UserError for a dim that is no arithmetic."""
    return tuple(evaluate(dim, sizes) if isinstance(dim, str) else int(dim or 0) for dim in shape)


def evaluate(text: str, sizes: Mapping[str, int]) -> int:
    """A dim such as `n * 2 + 1`."""
    try:
        return _value(ast.parse(text, mode="eval").body, sizes)
    except (SyntaxError, KeyError, ZeroDivisionError, RecursionError):
        raise UserError(f"dim {text[:60]!r}: cannot be computed; give --inputs") from None


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, sizes)
        case ast.BinOp(left=left, op=operator, right=right):
            return _computed(operator, _value(left, sizes), _value(right, sizes))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[left, right]):
            chosen = min if name == "min" else max
            return chosen(_value(left, sizes), _value(right, sizes))
    raise KeyError(ast.dump(node))


def _computed(operator: ast.operator, left: int, right: int) -> int:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return left // right
        case ast.Mod():
            return left % right
    raise KeyError(type(operator).__name__)
