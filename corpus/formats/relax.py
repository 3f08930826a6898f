"""Relax modules of TVM: their bindings as data; TVMScript and TVM's JSON are read in a worker."""

from __future__ import annotations

from pathlib import Path

from corpus.graphs.callees import calls_outside
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

NAME = "relax"
PROGRAM_FILE = "program.relax.json"
SUFFIXES = (".relax.json",)
FOREIGN = (".py", ".json")
TARGET = "tvm"

parse = GraphFormat(NAME).parse
read_program = GraphFormat(NAME).read_program


def is_foreign(path: Path) -> bool:
    """Whether a file is TVMScript, or a module in TVM's JSON."""
    if path.suffix == ".json":
        return not path.name.endswith((".torch.json", ".tir.json", *SUFFIXES)) and path.name != "case.json"
    return path.suffix == ".py" and mentions(path, r"^\s*(from|import)\s+tvm\b")
