"""The toy language to `corpus`: what a case holds."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from corpus.format import Format, Measure, read_document
from corpus.values import InputType, Value
from tests.triage.toy_language.program import SIZE, Program, parse, print_text


def check(program: Program, where: str, memory_bytes: int) -> None:
    """Whatever parses is small and does no harm."""


def input_types(program: Program, where: str) -> dict[str, InputType]:
    """Two floats."""
    return {"x": InputType(np.dtype(np.float32), (SIZE,))}


def make_inputs(program: Program, seed: int, dims: Mapping[str, int]) -> dict[str, Value]:
    """Small whole numbers."""
    return {"x": np.random.default_rng(seed).integers(1, 5, SIZE).astype(np.float32)}


def measure(program: Program) -> Measure:
    """An operator is a node."""
    return Measure(len(program.ops), 0, len(program.to_bytes()), 0, 1, 1, program.ops)


FORMAT = Format(
    name="toy",
    program_file="program.toy.json",
    suffixes=(".toy.json",),
    target="toy",
    unit="operators",
    read_program=partial(read_document, "toy"),
    parse=parse,
    check=check,
    input_types=input_types,
    make_inputs=make_inputs,
    canonical=Program.to_bytes,
    measure=measure,
    print_text=print_text,
)
