"""Sizes for symbolic dims: small, and the same wherever the same name stands."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

import numpy as np

from corpus.values import Shape

_SMALL = (2, 3, 4)
_IMAGE = 32
"""The size of an unknown height or width: a network that halves them needs room."""

_IMAGE_RANK = 4
_LONGEST = 200
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}


class Sizes:
    """The sizes given so far, by the dim's name; a dim without a name is known by its axis."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed % (1 << 63), 0xD1A5])
        self._sizes: dict[str, int] = {}

    def shape(self, declared: Shape | None) -> tuple[int, ...]:
        """Return a static shape; a tensor of unknown rank gets one dim."""
        dims = (None,) if declared is None else declared
        return tuple(
            dim
            if isinstance(dim, int)
            else self._size(dim or f"?{axis}", axis >= 2 and len(dims) >= _IMAGE_RANK)
            for axis, dim in enumerate(dims)
        )

    def _size(self, name: str, is_image: bool) -> int:
        if name not in self._sizes:
            small = _IMAGE if is_image else int(self._rng.choice(_SMALL))
            self._sizes[name] = self._computed(name) or small
        return self._sizes[name]

    def _computed(self, name: str) -> int | None:
        """Return the size of a dim that exporters name by a formula over others, as `past + 1`."""
        if name.isidentifier() or len(name) > _LONGEST:
            return None
        try:
            size = self._value(ast.parse(name, mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            return None
        return size if 0 < size <= 1 << 16 else None

    def _value(self, formula: ast.expr) -> int:
        match formula:
            case ast.Constant(value=int(number)):
                return min(number, 1 << 16)
            case ast.Name(id=name):
                return self._size(name, is_image=False)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](self._value(left), self._value(right))
            case _:
                raise ValueError(f"no formula of sizes: {ast.dump(formula)[:40]}")
