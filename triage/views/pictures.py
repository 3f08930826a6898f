"""Pictures that a terminal shows as lines and a page as SVG: errors of a tensor, a failure over releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus.values import Value
from oracles.numerics.compare import distance

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
    steps = np.floor(np.log10(np.maximum(finite, tiny) / max(float(finite.max()), tiny)))
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
