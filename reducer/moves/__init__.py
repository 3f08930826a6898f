"""The reducer's moves, one idea a file: how a subject may become smaller.

A file here or in a folder below registers its moves by naming them in `MOVES`. In come a subject and hints;
out come proposals, and in the end the smallest subject that still fails. `reducer/session.py` takes the moves
from here; they call no test themselves. (A *pass* is the compiler's.)
"""

import importlib
import pkgutil
from functools import cache
from typing import Any

from reducer.move import Move
from reducer.subject.base import Subject


def all_moves(kind: type[Subject]) -> tuple[Move[Any], ...]:
    """The moves that make subjects of a kind smaller, in the order of a round."""
    return tuple(move for move in _found() if not (move.hides or move.plain) and issubclass(kind, move.on))


def plain_moves(kind: type[Subject]) -> tuple[Move[Any], ...]:
    """The moves that make the smallest subject tell its cause, in their order."""
    return tuple(move for move in _found() if move.plain and issubclass(kind, move.on))


def anonymizing_moves() -> tuple[Move[Any], ...]:
    """The moves that hide the original, in their order."""
    return tuple(move for move in _found() if move.hides)


@cache
def _found() -> tuple[Move[Any], ...]:
    found: list[Move[Any]] = []
    for info in pkgutil.walk_packages(__path__, f"{__name__}."):
        if not info.ispkg:
            found.extend(importlib.import_module(info.name).MOVES)
    return tuple(sorted(found, key=lambda move: (move.order, move.name)))
