"""The typing rules of expressions, one function for each kind that has a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from corpus.tir.types import (
    element,
    integer_range,
    is_bool,
    is_float,
    is_integer,
    is_number,
    lanes,
    numpy_dtype,
    parts,
)
from corpus.tir.typing import call_problem
from corpus.tir.values import (
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Ramp,
    Select,
    Shuffle,
    Unary,
    type_of,
)

INTEGER_ONLY = frozenset({"mod", "floormod", "floordiv"})


def expression_problem(expr: Expr) -> str:
    """Say why an expression's operands do not suit it; empty if they do. Deeper operands are not checked."""
    rule = _RULES.get(type(expr))
    return rule(expr) if rule is not None else ""


def _const(expr: Const) -> str:
    if is_float(expr.dtype) and isinstance(expr.value, float):
        return "" if lanes(expr.dtype) == 1 else f"a literal of type {expr.dtype}"
    if parts(expr.dtype).code not in ("int", "uint", "bool") or lanes(expr.dtype) > 1:
        return f"a literal {expr.value!r} of type {expr.dtype}"
    least, most = integer_range(expr.dtype)
    return "" if least <= expr.value <= most else f"the literal {expr.value} is out of {expr.dtype}'s range"


def _binary(expr: Binary) -> str:
    a, b = type_of(expr.a), type_of(expr.b)
    if a != b:
        return f"{expr.op} of {a} and {b}"
    if expr.op in COMPARISONS:
        fine = is_number(a) or is_bool(a)
    elif expr.op in ARITHMETIC:
        fine = is_number(a)
    elif expr.op in BITWISE:
        fine = is_integer(a) or (is_bool(a) and expr.op.startswith("bit"))
    else:
        fine = is_bool(a)
    return "" if fine else f"{expr.op} of {a}"


def _unary(expr: Unary) -> str:
    dtype = type_of(expr.a)
    fine = is_bool(dtype) if expr.op == "not" else is_integer(dtype)
    return "" if fine else f"{expr.op} of {dtype}"


def _cast(expr: Cast) -> str:
    before = type_of(expr.value)
    fine = all(numpy_dtype(element(one)) is not None for one in (before, expr.dtype))
    return "" if fine and lanes(before) == lanes(expr.dtype) else f"cast of {before} to {expr.dtype}"


def _select(expr: Select) -> str:
    condition, then, other = type_of(expr.condition), type_of(expr.then), type_of(expr.other)
    fine = is_bool(condition) and lanes(condition) in (1, lanes(then))
    return "" if fine and then == other else f"select by {condition} of {then} and {other}"


def _ramp(expr: Ramp) -> str:
    base, stride = type_of(expr.base), type_of(expr.stride)
    fine = base == stride and is_integer(base) and lanes(base) == 1 and expr.lanes > 1
    return "" if fine else f"ramp of {base} by {stride}, {expr.lanes} lanes"


def _broadcast(expr: Broadcast) -> str:
    dtype = type_of(expr.value)
    fine = lanes(dtype) == 1 and expr.lanes > 1 and (is_number(dtype) or is_bool(dtype))
    return "" if fine else f"broadcast of {dtype} to {expr.lanes} lanes"


def _shuffle(expr: Shuffle) -> str:
    types = {element(type_of(item)) for item in expr.vectors}
    total = sum(lanes(type_of(item)) for item in expr.vectors)
    if len(types) != 1 or not expr.indices:
        return f"shuffle of {sorted(types)}"
    for index in expr.indices:
        if not isinstance(index, Const) or not 0 <= index.value < total:
            return f"a shuffle's index is not one of the {total} lanes"
    return ""


_RULES: Final[dict[type, Callable[[Any], str]]] = {
    Const: _const,
    Binary: _binary,
    Unary: _unary,
    Cast: _cast,
    Select: _select,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Shuffle: _shuffle,
    Call: lambda expr: call_problem(expr) if isinstance(expr, Call) else "",
}
