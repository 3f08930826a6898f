"""Operators of one operand on boxes, forwards and backwards (HC4, Benhamou et al. 1999)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from generators.finite.boxes import MOST, Array, Box, bounded, meet

Function = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Monotone:
    """A function that only rises, or only falls, its inverse, and where the two are defined.

    `nearly` says how near the ends of its image, which it never reaches, it gets them by rounding.
    """

    forward: Function
    backward: Function
    domain: tuple[float, float] = (-MOST, MOST)
    image: tuple[float, float] = (-MOST, MOST)
    falls: bool = False
    nearly: tuple[float, float] = (0.0, 0.0)

    def result(self, operand: Box) -> Box:
        """Return what the function makes of a box within its domain."""
        return self._ends(self.forward, operand)

    def operand(self, result: Box) -> Box:
        """Return the operands whose results lie in a box."""
        within = meet(result, Box(*map(np.asarray, self.image)))
        if self.nearly == (0.0, 0.0):
            return self._ends(self.backward, within)
        least, most = self.image[0] + self.nearly[0], self.image[1] - self.nearly[1]
        found = self._ends(self.backward, Box(*(np.clip(side, least, most) for side in within)))
        low = np.where((within.low <= least) & (self.nearly[0] > 0), -MOST, found.low)
        return Box(low, np.where((within.high >= most) & (self.nearly[1] > 0), MOST, found.high))

    def _ends(self, function: Function, box: Box) -> Box:
        low, high = function(box.low), function(box.high)
        return bounded(high, low) if self.falls else bounded(low, high)


def _same(x: Array) -> Array:
    return x


def _logit(x: Array) -> Array:
    return np.log(x) - np.log1p(-x)


_NEAR = 1 - 6e-8
LEAST = 1.2e-38
"""The least normal float32."""

MONOTONE: Mapping[str, Monotone] = {
    "Identity": Monotone(_same, _same),
    "Neg": Monotone(np.negative, np.negative, falls=True),
    "Log": Monotone(np.log, np.exp, domain=(LEAST, MOST)),
    "Exp": Monotone(
        np.exp, lambda x: np.log(np.maximum(x, 1e-300)), (-MOST, 88.7), (0.0, MOST), nearly=(1e-37, 0.0)
    ),
    "Sqrt": Monotone(np.sqrt, np.square, (0.0, MOST), (0.0, MOST)),
    "Asin": Monotone(np.arcsin, np.sin, (-1.0, 1.0), (-np.pi / 2, np.pi / 2)),
    "Acos": Monotone(np.arccos, np.cos, (-1.0, 1.0), (0.0, np.pi), falls=True),
    "Atan": Monotone(np.arctan, np.tan, image=(-np.pi / 2, np.pi / 2), nearly=(1e-6, 1e-6)),
    "Sinh": Monotone(np.sinh, np.arcsinh, (-88.7, 88.7)),
    "Asinh": Monotone(np.arcsinh, np.sinh, image=(-89.0, 89.0)),
    "Acosh": Monotone(np.arccosh, np.cosh, (1.0, MOST), (0.0, 89.4)),
    "Atanh": Monotone(np.arctanh, np.tanh, (-_NEAR, _NEAR)),
    "Tanh": Monotone(
        np.tanh, lambda x: np.arctanh(np.clip(x, -1, 1)), image=(-1.0, 1.0), nearly=(1e-6, 1e-6)
    ),
    "Sigmoid": Monotone(lambda x: 1 / (1 + np.exp(-x)), _logit, image=(0.0, 1.0), nearly=(1e-37, 1e-6)),
    "Softplus": Monotone(
        lambda x: np.logaddexp(x, 0),
        lambda x: np.where(x > 30, x, np.log(np.expm1(x))),
        image=(0.0, MOST),
        nearly=(1e-37, 0.0),
    ),
}
"""By the operator's name."""


def relu(operand: Box) -> Box:
    """Return the values of a box, or zero where they are below."""
    return Box(np.maximum(operand.low, 0), np.maximum(operand.high, 0))


def before_relu(result: Box) -> Box:
    """Return what a Relu makes these values of: of zero it may be anything below."""
    within = meet(result, Box(np.asarray(0.0), np.asarray(MOST)))
    return Box(np.where(within.low <= 0, -MOST, within.low), within.high)


def floor(operand: Box) -> Box:
    """Return the whole numbers below the values of a box."""
    return Box(np.floor(operand.low), np.floor(operand.high))


def before_floor(result: Box) -> Box:
    """Return the values whose whole numbers lie in a box."""
    return bounded(np.ceil(result.low), np.nextafter(np.floor(result.high) + 1, -np.inf))


def absolute(operand: Box) -> Box:
    """Return the magnitudes of the values of a box."""
    ends = np.minimum(abs(operand.low), abs(operand.high))
    around = (operand.low <= 0) & (operand.high >= 0)
    return Box(np.where(around, 0.0, ends), np.maximum(abs(operand.low), abs(operand.high)))


def before_absolute(operand: Box, result: Box) -> Box:
    """Return the operands of these magnitudes; of one sign where the operand has only that."""
    least = np.maximum(result.low, 0)
    low = np.where(operand.low > -least, least, -result.high)
    high = np.where(operand.high < least, -least, result.high)
    return Box(low, high)


def inverse(operand: Box) -> Box:
    """Return one over the values of a box, of which zero is none."""
    low, high = operand
    across = (low < 0) & (high > 0)
    least = np.where(across | (high == 0), -MOST, 1 / high)
    most = np.where(across | (low == 0), MOST, 1 / low)
    none = (low == 0) & (high == 0)
    return bounded(np.where(none, np.nan, least), np.where(none, np.nan, most))


def sine(operand: Box) -> Box:
    """Return the sines of a box: its ends, and what it passes between them."""
    ends = np.sin(operand.low), np.sin(operand.high)
    top = _passes(operand, np.pi / 2, 2 * np.pi)
    bottom = _passes(operand, -np.pi / 2, 2 * np.pi)
    return Box(np.where(bottom, -1.0, np.minimum(*ends)), np.where(top, 1.0, np.maximum(*ends)))


def cosine(operand: Box) -> Box:
    """Return the cosines of a box."""
    return sine(Box(operand.low + np.pi / 2, operand.high + np.pi / 2))


def tangent(operand: Box) -> Box:
    """Return the tangents of a box; anything where it passes a pole."""
    pole = _passes(operand, np.pi / 2, np.pi)
    low, high = np.tan(operand.low), np.tan(operand.high)
    return bounded(np.where(pole, -MOST, low), np.where(pole, MOST, high))


def _passes(box: Box, first: float, period: float) -> NDArray[np.bool_]:
    """Return whether a box holds a number that lies a whole number of periods from the first."""
    return np.floor((box.high - first) / period) > np.floor((box.low - first) / period)


PRINCIPAL: Mapping[str, Monotone] = {
    "Sin": Monotone(np.sin, lambda x: np.arcsin(np.clip(x, -1, 1)), (-np.pi / 2, np.pi / 2), (-1.0, 1.0)),
    "Cos": Monotone(np.cos, lambda x: np.arccos(np.clip(x, -1, 1)), (0.0, np.pi), (-1.0, 1.0), falls=True),
    "Tan": Monotone(np.tan, np.arctan, (-1.57, 1.57)),
}
"""What has many inverses, on the part where it has one."""
