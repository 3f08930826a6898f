"""Charts of pages: a falling curve over checks, on a logarithmic scale, and lines over time from zero up."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 440.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 14.0, 14.0, 34.0
MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: where, and its text."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The size of a chart, and where it is drawn in it."""

    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


@dataclass(frozen=True)
class Curve(Frame):
    """A chart for the template; `sweep` is the x from which on nothing was found any more."""

    line: str
    area: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    sweep: float
    last: tuple[float, float]
    text: str


def curve(points: Sequence[tuple[int, int]], checks: int) -> Curve:
    """The chart of (check, size) pairs, the first at check 0, up to `checks`."""
    span = max(checks, 1)
    sizes = [max(size, 1) for _, size in points]
    high, low = max(sizes), min(sizes)
    floor, ceiling = _bounds(low, high)

    def x(check: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * check / span, 1)

    def y(size: float) -> float:
        part = (math.log10(size) - floor) / (ceiling - floor)
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part, 1)

    line = f"M{x(points[0][0]):g} {y(sizes[0]):g}"
    line += "".join(f"H{x(check):g}V{y(size):g}" for (check, _), size in zip(points, sizes, strict=True))
    line += f"H{x(span):g}"
    return Curve(
        line,
        f"{line}V{HEIGHT - BOTTOM:g}H{LEFT:g}Z",
        tuple(Tick(x(check), f"{check:,}") for check in _steps(span)),
        tuple(Tick(y(size), short(size)) for size in _marks(floor, ceiling)),
        x(points[-1][0]),
        (x(points[-1][0]), y(sizes[-1])),
        short(points[-1][1]),
    )


def _bounds(low: int, high: int) -> tuple[float, float]:
    """The powers of ten that the axis shows, a little beyond the data; never an empty range."""
    floor, ceiling = math.log10(low), math.log10(high)
    margin = max((ceiling - floor) * 0.06, 0.05)
    return max(floor - margin, 0.0 if low > 1 else -margin), ceiling + margin


def _marks(floor: float, ceiling: float) -> list[int]:
    """Round sizes within the scale: powers of ten, and halves and fifths of them where those are few."""
    powers = range(math.floor(floor), math.ceil(ceiling) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5)):
        sizes = [factor * 10**power for power in powers if power >= 0 for factor in factors]
        marks = [size for size in sizes if floor <= math.log10(size) <= ceiling]
        if len(marks) >= 3:
            break
    return marks[:: max(1, math.ceil(len(marks) / MOST_TICKS))]


def _steps(span: int) -> list[int]:
    """Round numbers of checks from 0 on."""
    step = 1
    for factor in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**4, 10**5):
        step = factor
        if span / step <= MOST_TICKS:
            break
    return list(range(0, span + 1, step))


def short(number: int) -> str:
    """A number in few characters: `97`, `26.7k`, `1.2M`."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return str(number)


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
class Series(Frame):
    """A chart for the template; each line as (name, path, end, text of its last value)."""

    lines: tuple[tuple[str, str, Point, str], ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


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
