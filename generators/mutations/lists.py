"""A list that an attribute holds is changed: its length, or an element.

Many operators read several lists side by side, and take the elements of one for places in another.
"""

from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper

from generators.language.values import RandomSource

_ELEMENTS = (-1, 0, 1, 1000, -1000)
_FAR = (2**31, -(2**31), 2**62)
_NUMBERS = (0.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e30)


def change_list(draws: RandomSource, node: onnx.NodeProto) -> str | None:
    """Change a list that an attribute of a node holds, and say how: an element, its length, or all of it.

    A number becomes its own place, the length or a far one: where it is the place of something else, that is
    the element itself, or nothing.
    """
    held = [each for each in node.attribute if _items(each)]
    if not held:
        return None
    attribute = draws.pick(held)
    items = _items(attribute)
    at, form = draws.below(len(items)), draws.random()
    if form < 0.15:
        items, what = items[:-1], "lacks its last element"
    elif form < 0.25:
        items, what = [*items, items[at]], f"holds another {items[at]} behind its last element"
    elif form < 0.3:
        items, what = [], "is empty"
    else:
        items[at] = _other_element(draws, items, at, is_foreign=bool(node.domain))
        what = f"holds {items[at]!r} at {at}"
    _set_items(attribute, items)
    return f"attribute {attribute.name} of {node.name} {what}"


def _items(attribute: onnx.AttributeProto) -> list[Any]:
    """The elements of a list, or of a tensor of rank 1."""
    if attribute.type == AttributeProto.TENSOR:
        array = numpy_helper.to_array(attribute.t)
        return list(array.tolist()) if array.ndim == 1 else []
    return [*attribute.ints, *attribute.floats, *attribute.strings]


def _other_element(draws: RandomSource, items: list[Any], at: int, is_foreign: bool) -> Any:
    """ONNX's own operators read sizes in their lists: far ones would only fill the memory."""
    own = items[at]
    if draws.chance(0.2):
        return draws.pick(items)
    if isinstance(own, int):
        return draws.pick((*_ELEMENTS, at, at + 1, len(items), *(_FAR if is_foreign else ())))
    if isinstance(own, float):
        return draws.pick(_NUMBERS)
    other = "" if draws.chance(0.3) else "no such word"
    return other if isinstance(own, str) else other.encode()


def _set_items(attribute: onnx.AttributeProto, items: list[Any]) -> None:
    if attribute.type == AttributeProto.TENSOR:
        before = numpy_helper.to_array(attribute.t)
        with np.errstate(all="ignore"):
            array = np.array(items, object if before.dtype.kind == "O" else None).astype(before.dtype)
        attribute.t.CopyFrom(numpy_helper.from_array(array, attribute.t.name))
        return
    for field in (attribute.ints, attribute.floats, attribute.strings):
        if field:
            del field[:]
            field.extend(items)
