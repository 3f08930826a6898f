"""Values at the ends of their types: where a compiler's arithmetic goes wrong, if it does.

Integers lie at the ends of a type and around powers of two, floats around ties of rounding and far apart. A
program's values are such for most seeds; for the others they are small, as everybody's are.
"""

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from corpus.tir.program import make_inputs
from corpus.tir.tree import Module
from corpus.tir.types import integer_range, is_integer, parts
from corpus.tir.values import Buffer
from corpus.values import Tensor, Value
from generators.language.values import RandomSource

_SHARE = 0.6
_FEW = 0.35
"""How many elements of a buffer are small all the same: a program of extremes alone shows no others."""
_FLOATS: Sequence[float] = (0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 2048.5, 16777215.0, -0.0, 1e4, -3e4, 1e-4)
_BEYOND = 0.15
"""How many floats are tiny, huge, or a step beside a tie: most sums of such are those of the huge ones."""
_NARROWER = {"float64": "float32", "float32": "float16", "float16": "float8_e4m3fn"}
"""The type that a type's values lie between two of, where a cast has to choose."""


def has_extremes(seed: int) -> bool:
    """Whether the values of a seed are extremes."""
    return RandomSource(f"tir/extremes/{seed}").chance(_SHARE)


def drawn_integer(draws: RandomSource, dtype: str) -> int:
    """An integer of a type: one of its ends, a power of two or a neighbour of these, of either sign."""
    low, high = integer_range(dtype)
    power = 1 << draws.below(parts(dtype).bits)
    found = draws.pick((low, high, power, power, -power, 0)) + draws.pick((-1, 0, 0, 1))
    return min(max(found, low), high)


def inputs_of(module: Module, seed: int) -> dict[str, Value]:
    """The values of a module's parameters for a seed; numbers beside buffers are counts of loops."""
    made = {name: _counted(value) for name, value in make_inputs(module, seed).items()}
    if not has_extremes(seed):
        return made
    for place, buffer in enumerate(module.main.buffers):
        value = made[buffer.name]
        if isinstance(value, np.ndarray):
            made[buffer.name] = _sharpened(buffer, value, RandomSource(f"tir/extremes/{seed}/{place}"))
    return made


def _counted(value: Value) -> Value:
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind == "i":
        return np.asarray(abs(value))
    return value


def _sharpened(buffer: Buffer, value: Tensor, draws: RandomSource) -> Tensor:
    """The value with extremes in most places."""
    flat = value.copy().reshape(-1)
    for place in range(flat.size):
        if draws.chance(_FEW):
            continue
        if is_integer(buffer.dtype):
            flat[place] = drawn_integer(draws, buffer.dtype)
        elif buffer.dtype in _NARROWER:
            found = drawn_float(draws, buffer.dtype)
            flat[place] = found if buffer.dtype != "float16" or abs(found) < 65_000 else 2_049
    return flat.reshape(value.shape)


def drawn_float(draws: RandomSource, dtype: str) -> float:
    """A float of a type: mostly where integers round; else tiny, huge, or within a step of a narrower tie."""
    if not draws.chance(_BEYOND):
        return draws.pick(_FLOATS)
    own, narrower = np.dtype(dtype).type, ml_dtypes.finfo(_NARROWER[dtype])
    limits = np.finfo(own)
    if draws.chance(0.4):
        found = draws.pick((limits.smallest_subnormal, limits.tiny, limits.max, limits.max / 2, limits.eps))
    else:
        tie = own(1 + float(narrower.eps) * draws.pick((0.5, 1.5)))
        found = draws.pick((np.nextafter(tie, own(0)), tie, np.nextafter(tie, own(4))))
    return float(found) * draws.pick((1, 1, -1))
