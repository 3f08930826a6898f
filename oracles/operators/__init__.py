"""The operators, one file a family: all that is known of each, but how a framework spells it.

A file here that names `OPERATORS` is found by itself; `UNDRAWN` are operators that no program draws, with how
they round alone. The judge, the generators and the reducer all ask here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from onnx import NodeProto

from oracles.relation.arithmetic import UNKNOWN, Arithmetic

if TYPE_CHECKING:
    from oracles.relation.operator import Operator


@cache
def all_operators() -> tuple[Operator, ...]:
    """Every ONNX operator by name; torch's own operators are not among them."""
    from oracles.relation.program import DTypeFamily

    return tuple(operator for operator in _known().values() if operator.realm is not DTypeFamily.ATEN)


@cache
def aten_operators() -> tuple[Operator, ...]:
    """Every operator of torch itself, by name."""
    from oracles.relation.program import DTypeFamily

    return tuple(operator for operator in _known().values() if operator.realm is DTypeFamily.ATEN)


def find_operator(name: str) -> Operator:
    """The operator of this name; raises KeyError."""
    return _known()[name]


def known_operator(name: str) -> Operator | None:
    """The operator of this name; None if nobody has declared it."""
    return _known().get(name)


def arithmetic_of(node: NodeProto) -> Arithmetic:
    """How a node's operator rounds and what it leaves open, for its attributes.

    `UNKNOWN` if nobody has said, as of calls of a model's own functions.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    row = arithmetic().get(f"{domain}.{node.op_type}" if domain else node.op_type, UNKNOWN)
    return row if row.varies is None else row.varies(node)


@cache
def arithmetic() -> Mapping[str, Arithmetic]:
    """Map the names of operators, drawn or not, to their arithmetic."""
    undrawn = (getattr(module, "UNDRAWN", {}) for module in _families())
    drawn = {name: operator.arithmetic for name, operator in _known().items()}
    return {**drawn, **{name: row for rows in undrawn for name, row in rows.items()}}


@cache
def _known() -> Mapping[str, Operator]:
    found: dict[str, Operator] = {}
    for operator in (each for module in _families() for each in getattr(module, "OPERATORS", ())):
        if operator.name in found:
            raise ValueError(f"two entries for {operator.name}")
        found[operator.name] = operator
    return dict(sorted(found.items()))


@cache
def _families() -> tuple[object, ...]:
    names = sorted(info.name for info in iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}") for name in names)
