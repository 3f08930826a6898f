"""The operators, one file a family. A file here that names `OPERATORS` is found by itself."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from generators.language.operator import Operator
from generators.language.program import DTypeFamily


@cache
def all_operators() -> tuple[Operator, ...]:
    """Return every ONNX operator by name; torch's own operators are not among them."""
    return tuple(operator for operator in _known() if operator.realm is not DTypeFamily.ATEN)


@cache
def aten_operators() -> tuple[Operator, ...]:
    """Return every operator of torch itself, by name."""
    return tuple(operator for operator in _known() if operator.realm is DTypeFamily.ATEN)


@cache
def _known() -> tuple[Operator, ...]:
    found: dict[str, Operator] = {}
    for module in sorted(info.name for info in iter_modules(__path__)):
        for operator in import_module(f"{__name__}.{module}").OPERATORS:
            if operator.name in found:
                raise ValueError(f"two entries for {operator.name}")
            found[operator.name] = operator
    return tuple(found[name] for name in sorted(found))


def find_operator(name: str) -> Operator:
    """Return the entry of this name; raises KeyError."""
    return _by_name()[name]


@cache
def _by_name() -> dict[str, Operator]:
    return {operator.name: operator for operator in _known()}
