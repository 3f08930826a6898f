"""Operators of torch itself in an ONNX program, each called as its schema in `torch.ops.aten` has it."""

from __future__ import annotations

from typing import Any

import torch

from oracles.in_worker.lowered.lowering import Function, Op
from oracles.in_worker.torch.tensors import Unsupported


def call(op: Op) -> Function:
    """The operator as a function of its tensors; attributes are its other arguments, by their names."""
    overload = overload_of(op)
    places = overload._schema.arguments
    given = {
        place.name: converted(place, op.get(place.name)) for place in places if op.get(place.name) is not None
    }
    names = [place.name for place in places if is_tensor(place)]
    listed = next((place.name for place in places if is_list_of_tensors(place)), None)

    def run(*tensors: Any) -> Any:
        if listed is not None:
            arguments = {**given, listed: list(tensors)}
        else:
            arguments = {**given, **dict(zip(names, tensors))}  # noqa: B905 (Python 3.8)
        ordered = [place for place in places if not place.kwarg_only]
        while ordered and ordered[-1].name not in arguments:
            ordered.pop()
        plain = [arguments.pop(place.name, place.default_value) for place in ordered]
        return overload(*plain, **arguments)

    return run


def overload_of(op: Op) -> Any:
    """Return the overload for this number of tensors and attributes of these names."""
    packet = getattr(torch.ops.aten, op.name, None)
    if packet is None:
        raise Unsupported(f"operator {op.name} has no lowering to torch: aten has none of this name")
    for name in packet.overloads():
        overload = getattr(packet, name)
        if fits(overload._schema, op):
            return overload
    raise Unsupported(f"{op.name}: no lowering for {len(op.values)} tensors and {sorted(op.attributes)}")


def fits(schema: Any, op: Op) -> bool:
    """Return whether each tensor and each attribute has a place, and each place that needs one a value."""
    places = schema.arguments
    tensors = [place for place in places if is_tensor(place)]
    is_listed = any(map(is_list_of_tensors, places))
    others = {place.name: place for place in places if not is_tensor(place) and not is_list_of_tensors(place)}
    if not set(op.attributes) <= set(others) or any(place.is_out for place in places):
        return False
    if not all(holds(others[name], value) for name, value in op.attributes.items()):
        return False
    if len(op.values) > len(tensors) and not is_listed:
        return False
    missing = [place for place in tensors[len(op.values) :] if not is_listed]
    left = [place for name, place in others.items() if name not in op.attributes]
    return all(place.has_default_value() for place in (*missing, *left))


def holds(place: Any, value: Any) -> bool:
    """Return whether a place takes such a value: a list only where it is of lists."""
    return "List" in str(place.type) or not isinstance(value, (list, tuple))


def is_tensor(place: Any) -> bool:
    """Say whether a place of the schema takes a tensor."""
    return str(place.type) in ("Tensor", "Optional[Tensor]")


def is_list_of_tensors(place: Any) -> bool:
    """Say whether a place of the schema takes several tensors."""
    return str(place.type) == "List[Tensor]"


def converted(place: Any, value: Any) -> Any:
    """Return an attribute as the schema has it."""
    kind = str(place.type)
    if isinstance(value, bytes):
        return value.decode()
    if "bool" in kind:
        return bool(value)
    return list(value) if isinstance(value, (list, tuple)) else value
