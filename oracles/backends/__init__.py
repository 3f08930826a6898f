"""The frameworks that run programs, one file each, found by themselves.

A module has its backend's name, with `_` for `-`: only the one that is asked for is imported. It has a half
for the worker (`load`, `run` …) and ends with `backend()`, which says what crux knows of it
(`oracles.abilities`). The worker loads the file alone, under any Python from 3.8 on.
Other distributions bring theirs by an entry point of the group `tensorcrux.backends`.
"""

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Any

from corpus.errors import UserError
from oracles.abilities import Backend


def _found() -> Iterator[Backend]:
    """Yield each backend, imported when its turn comes, ours last: nobody replaces them."""
    ours = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    for module in (*installed("tensorcrux.backends"), *ours):
        found: Backend = module.backend()
        yield found


def installed(group: str) -> Iterator[Any]:
    """Yield what other distributions offer under a group of entry points.

    Raises `UserError` for one that cannot be imported.
    """
    for point in sorted(importlib.metadata.entry_points(group=group), key=lambda each: each.name):
        try:
            yield point.load()
        except (ImportError, AttributeError, SyntaxError) as error:
            whose = point.dist.name if point.dist else point.value
            raise UserError(f"{whose}: its entry point {point.value} fails ({error}); uninstall it") from None


@cache
def backends() -> dict[str, Backend]:
    """Every backend by its name."""
    return dict(sorted({backend.name: backend for backend in _found()}.items()))


@cache
def find_backend(name: str) -> Backend:
    """The backend of that name; raises `UserError` if there is none."""
    file = name.replace("-", "_")
    if any(info.name == file for info in pkgutil.iter_modules(__path__)):
        found: Backend = importlib.import_module(f"{__name__}.{file}").backend()
        if found.name == name:
            return found
    added = backends().get(name)  # by a measurement that brings a backend of its own
    if added is not None:
        return added
    raise UserError(f"target {name!r}: there is no such backend; known are {', '.join(sorted(backends()))}")
