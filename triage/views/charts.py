"""Charts of pages: a curve over checks on a logarithmic scale, lines over time, bars of what is new."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

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


STEPS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=7))
MOST_BARS = 60
_WIDE = Frame(width=900.0, height=170.0, left=34.0, right=900.0, top=12.0, bottom=144.0)


@dataclass(frozen=True)
class Bars(Frame):
    """The chart: bars as (x, y, width, height, words), the line of the sum, the marks below."""

    bars: tuple[tuple[float, float, float, float, str], ...]
    line: str
    marks: tuple[tuple[float, str], ...]
    most: int
    total: int


def over_time(times: Sequence[str]) -> Bars | None:
    """The chart of moments in ISO form; None of none."""
    moments = sorted(datetime.fromisoformat(each) for each in times)
    if not moments:
        return None
    step = next((each for each in STEPS if (moments[-1] - moments[0]) / each < MOST_BARS), STEPS[-1])
    start = _rounded_down(moments[0], step)
    counts = Counter(int((moment - start) / step) for moment in moments)
    slots = max(max(counts) + 1, 12)
    return _bars(counts, slots, start, step)


def _rounded_down(moment: datetime, step: timedelta) -> datetime:
    if step >= timedelta(days=1):
        return moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if step >= timedelta(hours=1):
        return moment.replace(minute=0, second=0, microsecond=0)
    return moment.replace(second=0, microsecond=0)


def _bars(counts: Counter[int], slots: int, start: datetime, step: timedelta) -> Bars:
    most, total = max(counts.values()), sum(counts.values())
    wide, high = (_WIDE.right - _WIDE.left) / slots, _WIDE.bottom - _WIDE.top
    form = "%Y-%m-%d" if step >= timedelta(days=1) else "%H:%M"
    bars, line, sum_ = [], "", 0
    for slot in range(max(counts) + 1):
        tall = high * counts[slot] / most
        x = _WIDE.left + wide * slot
        when = (start + step * slot).strftime(form)
        if counts[slot]:
            words = f"{when}: {counts[slot]} new"
            bars.append(
                (
                    round(x + wide * 0.15, 1),
                    round(_WIDE.bottom - tall, 1),
                    round(wide * 0.7, 1),
                    round(tall, 1),
                    words,
                )
            )
        sum_ += counts[slot]
        y = round(_WIDE.bottom - high * sum_ / total, 1)
        line += f"{'L' if line else 'M'}{round(x + wide / 2, 1)} {y}"
    every = max(1, slots // 6)
    marks = [
        (round(_WIDE.left + wide * (at + 0.5), 1), (start + step * at).strftime(form))
        for at in range(0, slots, every)
    ]
    return Bars(tuple(bars), line, tuple(marks), most, total, **asdict(_WIDE))
