"""PrimFuncs that are told as a formula of one result: `{"compute": …}` in a program's opaque functions.

A formula is JSON: a number; `["at", operand, index…]`, an operand's element; `["index", axis]`, a place in
the result; `[operator, left, right]`. An index is a formula as well; the dims are numbers.
"""

from typing import Any, Callable, Mapping, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np

from oracles.worker.relax_reference.rule import NotKnown, element

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "max": np.maximum,
    "min": np.minimum,
}


def computed(item: Any) -> Callable[..., Any]:
    """A callable for such a PrimFunc; NotKnown for one in TVM's own form."""
    if not isinstance(item, dict) or "compute" not in item:
        raise NotKnown("a PrimFunc in TVM's own form")
    told: Mapping[str, Any] = item["compute"]

    def call(*operands: Any) -> Any:
        places = list(np.indices(tuple(told["shape"])))
        found = formula(told["value"], operands, places)
        return np.broadcast_to(found, tuple(told["shape"])).astype(element(told["dtype"]))

    return call


def formula(item: Any, operands: Sequence[Any], places: Sequence[Any]) -> Any:
    """The value at all places at once."""
    if not isinstance(item, list):
        return item
    head, rest = item[0], item[1:]
    if head == "at":
        return operands[rest[0]][tuple(formula(each, operands, places) for each in rest[1:])]
    if head == "index":
        return places[rest[0]]
    left, right = (formula(each, operands, places) for each in rest)
    return OPERATIONS[head](left, right)
