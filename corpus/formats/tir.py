"""Modules of TVM's PrimFuncs: their loops as data; TVMScript and TVM's JSON are read in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from corpus.errors import UserError
from corpus.external import ExternalFile
from corpus.graphs.format import MOST_BYTES, read_limited
from corpus.tir.program import (
    calls_outside,
    canonical,
    check,
    input_types,
    make_inputs,
    measure,
    parse,
)
from corpus.tir.script import print_text
from corpus.tir.tree import Module
from corpus.values import InputType, Value

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

NAME = "tir"
PROGRAM_FILE = "program.tir.json"
SUFFIXES = (".tir.json",)
FOREIGN = ()
TARGET = "tvm"


def read_program(path: Path, memory_bytes: int) -> bytes:
    """The document's bytes; UserError for what cannot be one."""
    return read_limited(path, min(memory_bytes, MOST_BYTES), "no tir program")


def is_foreign(path: Path) -> bool:
    """None: files of TVM's own are opened as `relax`, and are this where they hold PrimFuncs alone."""
    return False


def external_files(module: Module, folder: Path, where: str) -> tuple[ExternalFile, ...]:
    """None: all is in the document."""
    return ()


def read_test_data(folder: Path, types: Mapping[str, InputType], memory_bytes: int) -> dict[str, Value]:
    """UserError: such folders belong to ONNX."""
    raise UserError(f"{folder}: inputs of such a program are kept in an .npz; name one")
