"""A model and its values as text and as a picture, for a person."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from corpus.onnx.text import print_text, tensor_text, type_text
from corpus.onnx.types import graph_types, inferred_types
from corpus.values import Tensor, Value
from oracles.numerics.compare import distance
from triage.views.graph_picture import DrawnGraph

MOST_VALUES = 36
MOST_TEXT = 200


def list_model(model: onnx.ModelProto) -> str:
    """The model with the type of every value that inference can tell, a line a node."""
    types = inferred_types(model)
    known = graph_types(model.graph)
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    found = {name: declared for name, declared in types.items() if name not in known}
    typed.graph.value_info.extend(
        onnx.ValueInfoProto(name=name, type=declared) for name, declared in found.items()
    )
    return print_text(typed).rstrip()


def describe_value(value: Value) -> str:
    """A value's type and, where there are few, its elements."""
    if value is None:
        return "absent"
    if isinstance(value, list):
        return f"sequence of {len(value)}: " + "; ".join(describe_value(each) for each in value)
    element = "string" if value.dtype.kind in "UO" else value.dtype.name
    return f"{element}[{','.join(map(str, value.shape))}] = {elements(value)}"


def describe_values(values: Mapping[str, Value]) -> dict[str, str]:
    """Each value as `describe_value` says it, by its name."""
    return {name: describe_value(value) for name, value in values.items()}


def elements(tensor: Tensor) -> str:
    """The elements of a tensor, nested, where they are few; else the first ones, or the one that all are."""
    flat = np.asarray(tensor).reshape(-1)
    if flat.size <= MOST_VALUES:
        return _nested(np.asarray(tensor))
    if all(each == flat[0] for each in flat):
        return f"all {flat[0]}"
    return f"[{', '.join(str(each) for each in flat[:MOST_VALUES])}, …]"


def _nested(tensor: Tensor) -> str:
    """Nested brackets with every element in the shortest text of its own type."""
    if tensor.ndim:
        return f"[{', '.join(_nested(each) for each in map(np.asarray, tensor))}]"
    return repr(str(tensor)) if tensor.dtype.kind in "UO" else str(tensor[()])


def mermaid(drawn: DrawnGraph) -> str:
    """A main graph as a Mermaid flow chart: inputs, weights, operators, outputs."""
    graph = drawn.graph
    types = {name: type_text(declared) for name, declared in drawn.types.items()}
    makers: dict[str, str] = {}
    lines = ["flowchart TD"]
    constants = {each.name for each in graph.initializer}
    for place, value in enumerate(each for each in graph.input if each.name not in constants):
        makers[value.name] = f"i{place}"
        lines.append(f'  i{place}(["{_label(value.name, types)}"])')
    for place, tensor in enumerate(graph.initializer):
        makers[tensor.name] = f"c{place}"
        lines.append(f'  c{place}[/"{_escape(f"{tensor.name}: {tensor_text(tensor)}")}"/]')
    for place, node in enumerate(graph.node):
        makers |= {name: f"n{place}" for name in node.output if name}
        lines.append(f'  n{place}["{_escape(node.op_type)}"]')
    for place, node in enumerate(graph.node):
        lines += [f"  {makers[name]} --> n{place}" for name in node.input if name in makers]
    for place, value in enumerate(graph.output):
        lines.append(f'  o{place}(["{_label(value.name, types)}"])')
        lines += [f"  {makers[value.name]} --> o{place}"] if value.name in makers else []
    return "\n".join(lines)


def _label(name: str, types: dict[str, str]) -> str:
    return _escape(f"{name}: {types[name]}" if name in types else name)


def _escape(text: str) -> str:
    """Text for a Mermaid label in quotes: entities for what would end it or be read as markup."""
    text = "".join(char if char.isprintable() else " " for char in text[:MOST_TEXT])
    for char, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(char, entity)
    return text


MOST_ROWS, MOST_COLUMNS = 16, 64
FEW = 8
"""Of so many values a table says more."""
LEVELS = 9
NOTHING, EQUAL, ENDLESS = " ", ".", "X"
SIGNS = f"{NOTHING}{EQUAL}123456789{ENDLESS}"
MEANING = {EQUAL: ". equal", "9": "9 greatest, 8 a tenth of it", ENDLESS: "X not finite"}
BAD, GOOD, OTHER = "bad", "good", "other"
SIGN_OF = {BAD: "x", GOOD: "o", OTHER: "~"}


def error_map(expected: Value, actual: Value) -> list[str]:
    """How far two tensors are apart, as at most 16 rows of 64 signs (`MEANING`); their last axis runs across.

    A sign has the greatest error of its elements. None for few values, or of different types.
    """
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return []
    if expected.shape != actual.shape or expected.dtype != actual.dtype or expected.size <= FEW:
        return []
    apart, last = distance(expected, actual).reshape(-1), expected.shape[-1]
    is_vector = last in (1, apart.size)
    width = min(apart.size, max(MOST_COLUMNS, -(-apart.size // MOST_ROWS))) if is_vector else last
    grid = np.append(apart, np.full(-apart.size % width, -1.0)).reshape(-1, width)
    levels = _levels(_coarse(_coarse(grid, 0, MOST_ROWS), 1, MOST_COLUMNS))
    return ["".join(SIGNS[level] for level in row) for row in levels]


def _coarse(grid: NDArray[np.float64], axis: int, most: int) -> NDArray[np.float64]:
    """The greatest values of at most so many stretches of an axis."""
    count = min(most, grid.shape[axis])
    found: NDArray[np.float64] = np.maximum.reduceat(grid, np.arange(count) * grid.shape[axis] // count, axis)
    return found


def _levels(apart: NDArray[np.float64]) -> NDArray[np.int64]:
    """The place of each error in `SIGNS`, on a scale of tenths of the greatest finite one."""
    finite = np.where(np.isfinite(apart) & (apart > 0), apart, 0.0)
    tiny = np.finfo(np.float64).tiny
    decades = np.log10(np.maximum(finite, tiny))
    steps = np.floor(decades - decades.max())
    levels = np.where(finite > 0, np.clip(LEVELS + steps, 1, LEVELS) + 1, np.where(apart < 0, 0, 1))
    return np.where(np.isinf(apart), SIGNS.index(ENDLESS), levels).astype(np.int64)


def legend(rows: Sequence[str]) -> str:
    """What the signs of a map mean, of those in it."""
    seen = set("".join(rows))
    return "; ".join(words for sign, words in MEANING.items() if sign in seen)


def cells(rows: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the places of a map with an error: column, row, level from 1 to 10."""
    for y, row in enumerate(rows):
        yield from ((x, y, SIGNS.index(sign) - 1) for x, sign in enumerate(row) if sign in SIGNS[2:])


def release_line(bisection: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The releases that a bisection tried, oldest first, each `bad`, `good`, or else `other`."""
    tried = bisection.get("tried") or []
    wanted = next((each["shows"] for each in tried if each["release"] == bisection["first_bad"]), "")
    states = {wanted: BAD, "passes": GOOD}
    return [(each["release"], states.get(each["shows"], OTHER)) for each in tried]


def release_text(line: Sequence[tuple[str, str]]) -> str:
    """The same in a line: `o 1.19.2 -- x 1.20.0`."""
    return " -- ".join(f"{SIGN_OF[state]} {release}" for release, state in line)
