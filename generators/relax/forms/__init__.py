"""The forms of expressions, a file for each kind: a file here that names `FORMS` is found by itself."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from generators.relax.leaves import Form


@cache
def forms() -> dict[str, Form]:
    """Every form by its name, in the order of names: a seed draws from this order."""
    modules = [import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)]
    found = {name: grow for module in modules for name, grow in module.FORMS.items()}
    return dict(sorted(found.items()))
