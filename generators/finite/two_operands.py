"""Operators of two operands on boxes, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from generators.finite.boxes import MOST, SLACK, Array, Box, anything, bounded, where
from generators.finite.one_operand import inverse

MOST_PRODUCTS = 1 << 16
"""Terms of a product of matrices that are looked at one by one."""


def add(one: Box, other: Box) -> Box:
    """Return the sums of two boxes."""
    return bounded(one.low + other.low, one.high + other.high)


def subtract(one: Box, other: Box) -> Box:
    """Return the differences of two boxes."""
    return bounded(one.low - other.high, one.high - other.low)


def multiply(one: Box, other: Box) -> Box:
    """Return the products of two boxes."""
    ends = [left * right for left in one for right in other]
    return bounded(np.minimum.reduce(ends), np.maximum.reduce(ends))


def divide(one: Box, other: Box) -> Box:
    """Return the quotients of two boxes."""
    return multiply(one, inverse(other))


def power(one: Box, other: Box) -> Box:
    """Return the powers of a box above zero, or by numbers that are known; of another one, anything."""
    ends = [left**right for left in one for right in other]
    above = Box(np.minimum.reduce(ends), np.maximum.reduce(ends))
    shape = above.low.shape
    known = where(
        np.broadcast_to(other.low == other.high, shape), _by_number(one, other.low), anything(shape)
    )
    found = where(np.broadcast_to(one.low > 0, shape), above, known)
    fractions = np.floor(other.high) < np.ceil(other.low)
    lost = np.isnan(one.low) | np.isnan(other.low) | ((one.high < 0) & fractions)
    return bounded(np.where(lost, np.nan, found.low), np.where(lost, np.nan, found.high))


def _by_number(one: Box, exponent: Array) -> Box:
    """Return the powers of a box by known numbers; below zero only whole numbers have any."""
    ends = one.low**exponent, one.high**exponent
    across = (one.low <= 0) & (one.high >= 0)
    found = Box(np.minimum(*ends), np.maximum(*ends))
    is_even = (exponent % 2 == 0) & (exponent > 0)
    is_odd = (exponent % 2 == 1) & (exponent > 0)
    found = where(across & is_even, Box(np.zeros(found.low.shape), found.high), found)
    return where(across & ~is_even & ~is_odd, anything(found.low.shape), found)


FORWARD: Mapping[str, Callable[[Box, Box], Box]] = {
    "Add": add,
    "Sub": subtract,
    "Mul": multiply,
    "Div": divide,
    "Pow": power,
}


def before(name: str, one: Box, other: Box, result: Box) -> tuple[Box | None, Box | None]:
    """Return the boxes of both operands for results in a box; None where nothing can be told."""
    if name == "Add":
        return subtract(result, other), subtract(result, one)
    if name == "Sub":
        return add(result, other), subtract(one, result)
    if name == "Mul":
        return _divided(result, other), _divided(result, one)
    if name == "Div":
        return multiply(result, other), _divided(one, result)
    return _before_power(one, other, result)


def _divided(result: Box, factor: Box) -> Box:
    """Return what gives these results when multiplied by a factor: anything where the factor may be zero."""
    found = divide(result, factor)
    may_be_zero = (factor.low <= 0) & (factor.high >= 0) & ~np.isnan(result.low)
    return Box(np.where(may_be_zero, -MOST, found.low), np.where(may_be_zero, MOST, found.high))


def _before_power(one: Box, other: Box, result: Box) -> tuple[Box | None, Box | None]:
    logs = Box(np.log(np.maximum(result.low, 1e-300)), np.log(np.maximum(result.high, 1e-300)))
    base = _divided(logs, other)
    base = Box(np.exp(np.clip(base.low, -700, 88)), np.exp(np.clip(base.high, -700, 88.7)))
    exponent = _divided(logs, Box(np.log(one.low), np.log(one.high)))
    is_told = np.broadcast_to((one.low > 0) & (result.high > 0), result.low.shape)
    untold = anything(result.low.shape)
    by_one = where(np.broadcast_to((other.low == 1) & (other.high == 1), result.low.shape), result, untold)
    return where(is_told, base, by_one), where(is_told, exponent, untold)


def twice(name: str, box: Box) -> Box | None:
    """Return what an operator gives of one value as both of its operands."""
    if name == "Sub":
        return Box(box.low * 0, box.low * 0)
    if name == "Div":
        none = (box.low == 0) & (box.high == 0)
        ones = np.where(none, np.nan, 1.0 + box.low * 0)
        return Box(ones, ones)
    if name == "Add":
        return bounded(2 * box.low, 2 * box.high)
    if name == "Mul":
        found = multiply(box, box)
        across = (box.low <= 0) & (box.high >= 0)
        ends = np.minimum(box.low**2, box.high**2)
        return bounded(np.where(across, 0.0, ends), found.high)
    if (
        name == "Pow"
    ):  # never below e to the -1/e above zero, and below only whole numbers have one: -1 has -1
        least = np.where(np.isnan(box.low), np.nan, np.where(box.low >= 0, 0.69, -1.0))
        return Box(least, np.where(np.isnan(least), np.nan, MOST))
    return None


def before_twice(name: str, result: Box) -> Box | None:
    """Return the values that give these results as both operands."""
    if name == "Add":
        return Box(result.low / 2, result.high / 2)
    if name == "Mul":
        most = np.sqrt(np.maximum(result.high, 0))
        return Box(np.where(np.isnan(result.low), np.nan, -most), most)
    return None


def product(one: Box, weights: Array) -> Box:
    """Return a box times a matrix; sums of large terms that cancel may be off by their rounding."""
    up, down = np.maximum(weights, 0), np.minimum(weights, 0)
    low, high = one.low @ up + one.high @ down, one.high @ up + one.low @ down
    slack = SLACK * (np.maximum(abs(one.low), abs(one.high)) @ abs(weights))
    return bounded(low - slack, high + slack)


def before_product(one: Box, weights: Array, result: Box, is_exact: bool) -> Box | None:
    """Return the rows whose products with a matrix lie in a box: by what the other terms leave.

    `is_exact` adds what the inverse of the matrix says, as if a sum of huge terms could not cancel by chance.
    """
    if one.low.size * weights.shape[1] > MOST_PRODUCTS:
        return None
    parts = multiply(Box(one.low[..., None], one.high[..., None]), Box(weights, weights))
    slack = SLACK * np.maximum(abs(parts.low), abs(parts.high)).sum(-2, keepdims=True)
    others_low = parts.low.sum(-2, keepdims=True) - parts.low - slack
    others_high = parts.high.sum(-2, keepdims=True) - parts.high + slack
    left = bounded(result.low[..., None, :] - others_high, result.high[..., None, :] - others_low)
    each = _divided(left, Box(weights, weights))
    found = Box(each.low.max(-1), each.high.min(-1))
    if is_exact and np.linalg.matrix_rank(weights) == weights.shape[0]:
        inverted = product(result, np.asarray(np.linalg.pinv(weights), np.float64))
        return Box(np.maximum(found.low, inverted.low), np.minimum(found.high, inverted.high))
    return found
