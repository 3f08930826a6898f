"""torch programs: an fx graph as data; scripts and `.pt2` files are captured in a worker."""

from __future__ import annotations

from pathlib import Path

from corpus.graphs.format import (
    GraphFormat,
    check,
    external_files,
    input_types,
    make_inputs,
    mentions,
    read_test_data,
)
from corpus.graphs.names import canonical
from corpus.graphs.program import measure
from corpus.graphs.text import print_text

__all__ = [
    "FOREIGN",
    "NAME",
    "PROGRAM_FILE",
    "SUFFIXES",
    "TARGET",
    "calls_outside",
    "canonical",
    "check",
    "external_files",
    "input_types",
    "is_foreign",
    "make_inputs",
    "measure",
    "parse",
    "print_text",
    "read_program",
    "read_test_data",
]

NAME = "torch"
PROGRAM_FILE = "program.torch.json"
SUFFIXES = (".torch.json",)
FOREIGN = (".py", ".pt2")
TARGET = "inductor"

parse = GraphFormat(NAME).parse
read_program = GraphFormat(NAME).read_program


def calls_outside(program: bytes) -> str:
    """Nothing: only operators of torch's own exist for such a program, whoever trusts it."""
    return ""


def is_foreign(path: Path) -> bool:
    """Whether a file is a script that imports torch, or an exported program."""
    return path.suffix == ".pt2" or (
        path.suffix == ".py" and not mentions(path, r"^\s*(from|import)\s+tvm\b")
    )
