"""The toy language to `corpus`: what a case holds."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from corpus.format import Format, Measure, read_document
from corpus.values import InputType, Value
from tests.triage.toy_language.program import SIZE, Line, Program, parse, print_text


def check(program: Program, where: str, memory_bytes: int) -> None:
    """Whatever parses is small and does no harm."""


def input_types(program: Program, where: str) -> dict[str, InputType]:
    """Two floats each."""
    return {name: InputType(np.dtype(np.float32), (SIZE,)) for name in program.inputs}


def make_inputs(program: Program, seed: int, dims: Mapping[str, int]) -> dict[str, Value]:
    """Small whole numbers."""
    rng = np.random.default_rng(seed)
    return {name: rng.integers(1, 5, SIZE).astype(np.float32) for name in program.inputs}


def canonical(program: Program) -> bytes:
    """The document with names by place."""
    names = [*program.inputs, *(line.name for line in program.lines)]
    known = {name: f"v{place}" for place, name in enumerate(names)}
    lines = (
        Line(known[each.name], each.op, tuple(map(known.__getitem__, each.reads))) for each in program.lines
    )
    return Program(tuple(known[name] for name in program.inputs), tuple(lines)).to_bytes()


def measure(program: Program) -> Measure:
    """A line is a node."""
    ops = tuple(line.op for line in program.lines)
    return Measure(len(ops), 0, len(program.to_bytes()), 0, len(program.inputs), 1, ops)


FORMAT = Format(
    name="toy",
    program_file="program.toy.json",
    suffixes=(".toy.json",),
    target="toy",
    unit="lines",
    read_program=partial(read_document, "toy"),
    parse=parse,
    check=check,
    input_types=input_types,
    make_inputs=make_inputs,
    canonical=canonical,
    measure=measure,
    print_text=print_text,
)
