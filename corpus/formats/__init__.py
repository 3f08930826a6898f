"""The formats a program may be in: one module each, found by itself.

In come files, bytes and parsed programs; out comes what the record `Format` (`corpus/format.py`) names. A
format is a module of this package with a `FORMAT`; adding one touches no other file. Every room above may
call it.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any, cast

from corpus.errors import UserError
from corpus.format import Format


@cache
def format_names() -> tuple[str, ...]:
    """The formats there are, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache
def find_format(name: str) -> Format[Any]:
    """Return the format of that name; UserError when there is none."""
    if name not in format_names():
        known = ", ".join(format_names())
        raise UserError(f"format {name[:40]!r}: not known; the formats are {known}")
    return cast(Format[Any], importlib.import_module(f"{__name__}.{name}").FORMAT)


def part_of(package: str, name: str, part: str, what: str) -> Any:
    """What another package's folder of languages knows of one: `part` of its module there.

    UserError where there is no such language, or where that folder holds none: then nobody has said how to do
    `what` with its programs.
    """
    found = find_format(name)
    if importlib.util.find_spec(f"{package}.{name}") is None:
        raise UserError(f"{found.name} programs: crux cannot {what} them")
    return getattr(importlib.import_module(f"{package}.{name}"), part)


def format_of(path: Path) -> Format[Any] | None:
    """Return the format whose suffix the file has, or whose program the folder holds."""
    for name in format_names():
        found = find_format(name)
        if path.is_dir() and (path / found.program_file).is_file():
            return found
        if path.is_file() and (path.name.endswith(found.suffixes) or found.is_foreign(path)):
            return found
    return None
