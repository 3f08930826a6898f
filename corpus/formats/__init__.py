"""The formats a program may be in: one module each, found by itself.

A format is a module of this package with the names of `Format`. Adding one touches no other file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from corpus.errors import UserError
from corpus.external import ExternalFile
from corpus.measure import Measure
from corpus.values import InputType, Value


class Format(Protocol):
    """What the rest asks of a format; `Any` stands for its own parsed program.

    `PROGRAM_FILE` is the program's name in a case folder, `SUFFIXES` those of files that hold one alone.
    `FOREIGN` are the suffixes of files that only the framework opens, perhaps by running them: that needs the
    user's trust. `TARGET` is the backend that runs such programs where none is named.
    """

    NAME: str
    PROGRAM_FILE: str
    SUFFIXES: tuple[str, ...]
    FOREIGN: tuple[str, ...]
    TARGET: str

    def read_program(self, path: Path, memory_bytes: int) -> bytes:
        """The program's exact bytes; UserError for what cannot be one, before memory is taken."""

    def is_foreign(self, path: Path) -> bool:
        """Whether a file is for the framework to open."""

    def parse(self, program: bytes, where: str = ...) -> Any:
        """The program; UserError when it is none."""

    def check(self, model: Any, where: str, memory_bytes: int) -> None:
        """UserError for a program that cannot be handled safely, or whose values cannot fit the memory."""

    def calls_outside(self, program: bytes) -> str:
        """What the program calls that needs the user's trust, in words; empty where it only computes."""

    def external_files(self, model: Any, folder: Path, where: str) -> tuple[ExternalFile, ...]:
        """The files that the program refers to, in order of first use; UserError when one is not sound."""

    def input_types(self, model: Any, where: str) -> dict[str, InputType]:
        """What the program takes, in order."""

    def read_test_data(
        self, folder: Path, types: Mapping[str, InputType], memory_bytes: int
    ) -> dict[str, Value]:
        """Inputs kept in the format's own way."""

    def make_inputs(self, model: Any, seed: int) -> dict[str, Value]:
        """Values for every required input; the same seed gives the same values."""

    def canonical(self, model: Any) -> bytes:
        """The program with names replaced by positions and without documentation."""

    def measure(self, model: Any) -> Measure:
        """Its size."""

    def print_text(self, model: Any) -> str:
        """The program for a person to read."""


@cache
def format_names() -> tuple[str, ...]:
    """The formats there are, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache
def find_format(name: str) -> Format:
    """The format of that name; UserError when there is none."""
    if name not in format_names():
        known = ", ".join(format_names())
        raise UserError(f"format {name[:40]!r}: not known; the formats are {known}")
    return cast(Format, importlib.import_module(f"{__name__}.{name}"))


def format_of(path: Path) -> Format | None:
    """The format whose suffix the file has, or whose program the folder holds."""
    for name in format_names():
        found = find_format(name)
        if path.is_dir() and (path / found.PROGRAM_FILE).is_file():
            return found
        if path.is_file() and (path.name.endswith(found.SUFFIXES) or found.is_foreign(path)):
            return found
    return None
