"""A falling curve over checks, drawn in steps on a logarithmic scale."""

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


@dataclass(frozen=True)
class Curve:
    """A chart for the template; `sweep` is the x from which on nothing was found any more."""

    line: str
    area: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    sweep: float
    last: tuple[float, float]
    text: str
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


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
