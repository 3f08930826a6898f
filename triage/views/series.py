"""Lines over time on linear scales, from zero up: how something went on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from triage.views.curve import Tick, short

WIDTH, HEIGHT = 440.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 14.0, 14.0, 34.0
Point = tuple[float, float]
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 25.0)
_TIMES = (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800)
MOST_POINTS = 400
LEAST = 1e-3
"""The top of a scale on which nothing is."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: what it shows and its points, (seconds, value), in the order of time."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Series:
    """A chart for the template; each line as (name, path, end, text of its last value)."""

    lines: tuple[tuple[str, str, Point, str], ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


def series(lines: Sequence[Line]) -> Series | None:
    """The chart of some lines; None where there is nothing to draw."""
    shown = [each for each in lines if len(each.points) > 1]
    if not shown:
        return None
    span = max(each.points[-1][0] for each in shown) or 1.0
    step = _step(max(value for each in shown for _, value in each.points))
    most = step * max(1, -(-max(value for each in shown for _, value in each.points) // step))

    def place(point: Point) -> Point:
        x = LEFT + (WIDTH - LEFT - RIGHT) * point[0] / span
        return round(x, 1), round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * point[1] / most, 1)

    drawn = []
    for each in shown:
        found = [place(point) for point in _fewer(each.points)]
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in found)
        drawn.append((each.name, path, found[-1], _text(each.points[-1][1])))
    up = tuple(Tick(place((0, step * at))[1], _text(step * at)) for at in range(round(most / step) + 1))
    across = tuple(Tick(place((at, 0))[0], duration(at)) for at in _moments(span))
    return Series(tuple(drawn), across, up)


def _fewer(points: Sequence[Point]) -> Sequence[Point]:
    every = max(1, len(points) // MOST_POINTS)
    return [*points[:-1:every], points[-1]]


def _step(most: float) -> float:
    """A round distance of the marks, so that there are two to five."""
    power = 10.0 ** (math.floor(math.log10(max(most, LEAST))) - 1)
    return next((power * each for each in _STEPS if most / (power * each) <= 4), power * 50)


def _moments(span: float) -> list[int]:
    step = next((each for each in _TIMES if span / each <= 5), _TIMES[-1])
    return list(range(0, int(span) + 1, step))


def duration(seconds: float) -> str:
    """A time in short: `40 s`, `5 min`, `2 h`, `3 d`."""
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:g} {name}"
    return f"{seconds:g} s" if seconds else "0"


def _text(value: float) -> str:
    return short(round(value)) if value >= 10 or not value % 1 else f"{value:.2g}"
