"""PrimFuncs of a program's data that are told as a formula of one result (`{"compute": …}`)."""

from __future__ import annotations

from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import tvm
from tvm import te, tirx

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "max": lambda left, right: tirx.max(left, right),
    "min": lambda left, right: tirx.min(left, right),
}


def primfunc_from(item: dict[str, Any]) -> Any:
    """The PrimFunc of such a formula; its language is that of `oracles.in_worker.golden.primfuncs`."""
    told = item["compute"]
    operands = [
        te.placeholder(sizes(shape), dtype, f"a{at}") for at, (dtype, shape) in enumerate(told["operands"])
    ]

    def element(*places: Any) -> Any:
        found = formula(told["value"], operands, places, told["dtype"])
        return found if isinstance(found, tvm.ir.Expr) else tirx.const(found, told["dtype"])

    result = te.compute(sizes(told["shape"]), element, name="made")
    return te.create_prim_func([*operands, result]).without_attr("global_symbol")


def sizes(shape: list[int]) -> tuple[Any, ...]:
    """The dims as Relax has them: of 64 bits."""
    return tuple(tirx.IntImm("int64", size) for size in shape)


def formula(item: Any, operands: list[Any], places: Any, dtype: str) -> Any:
    """The expression at these places; a number of an element's own type."""
    if not isinstance(item, list):
        return tirx.const(item, dtype)
    head, rest = item[0], item[1:]
    if head == "at":
        return operands[rest[0]](*(formula(each, operands, places, "int64") for each in rest[1:]))
    if head == "index":
        return places[rest[0]]
    left, right = (formula(each, operands, places, dtype) for each in rest)
    return OPERATIONS[head](left, right)
