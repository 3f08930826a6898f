"""Curves with bands, as a picture (SVG): the median of some runs, the least and the most behind it."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 76, 140, 34, 48
COLOURS = ("#777777", "#1f77b4", "#2ca02c", "#d62728", "#9467bd", "#ff7f0e", "#8c564b")
APART = 14.0
"""Between the names of two curves that end side by side."""


def picture(marks: Numbers, bands: Mapping[str, Numbers], title: str, low: float, most: float) -> str:
    """Draw each name's runs (a row each) over CPU seconds, between two values of the other axis."""
    scale = (WIDTH - LEFT - RIGHT) / float(marks[-1]), (HEIGHT - TOP - BOTTOM) / (most - low)

    def at(seconds: float, value: float) -> tuple[float, float]:
        return LEFT + scale[0] * seconds, HEIGHT - BOTTOM - scale[1] * (value - low)

    def line(values: Numbers) -> list[str]:
        places = (at(float(mark), float(value)) for mark, value in zip(marks, values, strict=True))
        return [f"{x:.1f},{y:.1f}" for x, y in places]

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 20, title, 13),
        _text(LEFT + scale[0] * float(marks[-1]) / 2, HEIGHT - 10, "CPU seconds", 11),
    ]
    for value in np.linspace(low, most, 5):
        x, y = at(0, float(value))
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text(x - 6, y + 4, f"{value:,.0f}", 11, "end"))
    for mark in np.linspace(0, float(marks[-1]), 5):
        parts.append(_text(at(float(mark), low)[0], HEIGHT - BOTTOM + 16, f"{mark:.0f}", 11))
    for colour, (name, place, band) in zip(COLOURS, _ends(bands, at, float(marks[-1])), strict=False):
        around = line(band.max(axis=0)) + line(band.min(axis=0))[::-1]
        middle = " ".join(line(np.median(band, axis=0)))
        parts.append(f'<polygon points="{" ".join(around)}" fill="{colour}" opacity="0.15"/>')
        parts.append(f'<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(WIDTH - RIGHT + 6, place + 4, name, 12, "start", colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ends(
    bands: Mapping[str, Numbers], at: Callable[[float, float], tuple[float, float]], last: float
) -> list[tuple[str, float, Numbers]]:
    """Each curve with the height of its name, which stands clear of the others'."""
    wanted = sorted((at(last, float(np.median(band[:, -1])))[1], name) for name, band in bands.items())
    heights: dict[str, float] = {}
    free = 0.0
    for height, name in wanted:
        heights[name] = max(height, free)
        free = heights[name] + APART
    return [(name, heights[name], band) for name, band in bands.items()]


def _text(x: float, y: float, words: str, size: int, anchor: str = "middle", colour: str = "#333333") -> str:
    how = f'font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {how}>{words}</text>'


def told(marks: Numbers, band: Numbers, seconds: float) -> str:
    """The median of the runs after so many seconds, with the least and the most."""
    values = [float(np.interp(seconds, marks, line)) for line in band]
    return f"{np.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"
