"""The formats a program may be in: one module each, found by itself.

In come files, bytes and parsed programs; out comes what the record `Format` (`corpus/format.py`) names. A
format is a module of this package with a `FORMAT`; adding one touches no other file. Every room above may
call it.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from functools import cache
from itertools import chain
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
    """The format of that name; UserError when there is none."""
    if name not in format_names():
        known = ", ".join(format_names())
        raise UserError(f"format {name[:40]!r}: not known; the formats are {known}")
    return cast(Format[Any], importlib.import_module(f"{__name__}.{name}").FORMAT)


def language_in(package: str, name: str) -> Any | None:
    """The `LANGUAGE` that a package's folder of languages has for a format; None where it has none.

    UserError where there is no such format.
    """
    place = f"{package}.{find_format(name).name}"
    return importlib.import_module(place).LANGUAGE if importlib.util.find_spec(place) else None


def format_of(path: Path) -> Format[Any] | None:
    """The format whose suffix the file has, or whose program the folder holds."""
    if path.is_dir():
        return next((each for each in _formats() if (path / each.program_file).is_file()), None)
    own = (each for each in _formats() if path.name.endswith(each.suffixes))
    foreign = (each for each in _formats() if each.is_foreign(path))
    return next(chain(own, foreign), None) if path.is_file() else None


def _formats() -> Iterator[Format[Any]]:
    """Every format, each loaded when its turn comes."""
    return map(find_format, format_names())
