"""PrimFuncs called by their values, as Relax's `call_tir` does: the function writes the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corpus.tir.tree import Function, Module
from corpus.tir.values import Buffer, Const
from corpus.values import Tensor
from oracles.tir.interpreter import MOST_STEPS, interpret

_NUDGE, _MOVED = 1e-5, 1e-2
"""How far operands are moved, and how far a result may move then, both relative."""


class NotDefined(Exception):
    """The call has no result that every compiler must give, or the interpreter does not know it."""


def called(function: Function, operands: Sequence[Tensor], steps: int = MOST_STEPS) -> list[Tensor]:
    """Return what the call leaves in each buffer after the operands, undefined before. Raises NotDefined."""
    given, written = function.params[: len(operands)], function.params[len(operands) :]
    arrays: dict[str, Tensor] = {}
    for param, value in zip(given, operands, strict=False):
        with np.errstate(over="ignore"):
            arrays[param.name] = value.astype(param.dtype)
    for param in written:
        arrays[param.name] = np.zeros(_shape(param), param.dtype)
    if len(given) < len(operands) or not written:
        raise NotDefined("a PrimFunc of other parameters than a call without effects gives it")
    found = interpret(
        Module({"main": function}), arrays, trials=0, steps=steps, fresh=[param.name for param in written]
    )
    if not found.is_defined:
        raise NotDefined(found.reason or "an element that is not defined")
    return [found.outputs[param.name] for param in written]


def is_steady(
    function: Function, operands: Sequence[Tensor], exact: Sequence[Tensor], steps: int = MOST_STEPS
) -> bool:
    """Return whether results hardly move from the exact ones if the float operands do.

    A comparison or a floor of what was computed elsewhere may be decided by its rounding.
    """
    if all(value.dtype.kind != "f" for value in operands):
        return True
    moved = called(function, [_nudged(value) for value in operands], steps)
    return all(_is_near(a, b) for a, b in zip(exact, moved, strict=True))


def _shape(param: object) -> tuple[int, ...]:
    dims = param.shape if isinstance(param, Buffer) else (None,)
    known = [int(dim.value) for dim in dims if isinstance(dim, Const)]
    if len(known) < len(dims):
        raise NotDefined("a result whose dims are not numbers")
    return tuple(known)


def _nudged(value: Tensor) -> Tensor:
    """Move the elements of a float tensor, neighbours in opposite directions."""
    if value.dtype.kind != "f":
        return value
    signs = np.where(np.arange(value.size) % 2, 1.0, -1.0).reshape(value.shape)
    return np.asarray(value * (1 + _NUDGE * signs) + _NUDGE * 1e-2 * signs, value.dtype)


def _is_near(exact: Tensor, moved: Tensor) -> bool:
    if exact.dtype.kind != "f":
        return bool(np.array_equal(exact, moved))
    return bool(np.allclose(exact, moved, rtol=_MOVED, atol=_MOVED))
