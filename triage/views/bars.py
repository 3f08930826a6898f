"""How many were new, by day or, of a shorter time, by hour or minute: bars, with the sum as a line."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 900.0, 170.0, 34.0, 26.0, 12.0
STEPS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=7))
MOST_BARS = 60


@dataclass(frozen=True)
class Bars:
    """The chart: bars as (x, y, width, height, words), the line of the sum, the marks below."""

    bars: tuple[tuple[float, float, float, float, str], ...]
    line: str
    marks: tuple[tuple[float, str], ...]
    most: int
    total: int
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


def over_time(times: Sequence[str]) -> Bars | None:
    """The chart of moments in ISO form; None of none."""
    moments = sorted(datetime.fromisoformat(each) for each in times)
    if not moments:
        return None
    step = next((each for each in STEPS if (moments[-1] - moments[0]) / each < MOST_BARS), STEPS[-1])
    start = _floor(moments[0], step)
    counts = Counter(int((moment - start) / step) for moment in moments)
    slots = max(max(counts) + 1, 12)
    return _drawn(counts, slots, start, step)


def _floor(moment: datetime, step: timedelta) -> datetime:
    if step >= timedelta(days=1):
        return moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if step >= timedelta(hours=1):
        return moment.replace(minute=0, second=0, microsecond=0)
    return moment.replace(second=0, microsecond=0)


def _drawn(counts: Counter[int], slots: int, start: datetime, step: timedelta) -> Bars:
    most, total = max(counts.values()), sum(counts.values())
    wide, high = (WIDTH - LEFT) / slots, HEIGHT - BOTTOM - TOP
    form = "%Y-%m-%d" if step >= timedelta(days=1) else "%H:%M"
    bars, line, sum_ = [], "", 0
    for slot in range(max(counts) + 1):
        tall = high * counts[slot] / most
        x = LEFT + wide * slot
        when = (start + step * slot).strftime(form)
        if counts[slot]:
            words = f"{when}: {counts[slot]} new"
            bars.append(
                (
                    round(x + wide * 0.15, 1),
                    round(HEIGHT - BOTTOM - tall, 1),
                    round(wide * 0.7, 1),
                    round(tall, 1),
                    words,
                )
            )
        sum_ += counts[slot]
        y = round(HEIGHT - BOTTOM - high * sum_ / total, 1)
        line += f"{'L' if line else 'M'}{round(x + wide / 2, 1)} {y}"
    every = max(1, slots // 6)
    marks = [
        (round(LEFT + wide * (at + 0.5), 1), (start + step * at).strftime(form))
        for at in range(0, slots, every)
    ]
    return Bars(tuple(bars), line, tuple(marks), most, total)
