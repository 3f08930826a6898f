"""The forms of expressions, one file each: a file here that names `NAME` and `grow` is found by itself."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from generators.relax.growing import Form


@cache
def forms() -> dict[str, Form]:
    """Return every form by its name."""
    modules = [import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)]
    return {module.NAME: module.grow for module in modules}
