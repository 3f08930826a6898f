"""Rounding-sized noise in the inputs of a case, and the tables of sizes that go with it."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
from onnx import TensorProto

from corpus.values import Tensor, Value, widen

NOISE_ULPS = 8.0
"""The noise in units of the last place: what kernels that sum in another order or approximate stay below."""

MOST_NOISE = 0.1
"""The noise relative to a result stays below this, however short the type and long the sum."""

HALF = 0.499
"""What a quantised value moves by, in steps: one that lies on the grid stays there."""

INT8_STEP = 1 / 254
"""Half a step where the greatest magnitude is 127 of them: what rounding to int8 takes a value away."""

EPSILON: dict[int, float] = {
    TensorProto.FLOAT: 2.0**-23,
    TensorProto.DOUBLE: 2.0**-52,
    TensorProto.FLOAT16: 2.0**-10,
    TensorProto.BFLOAT16: 2.0**-7,
}
"""The distance from 1 to the next number, by element type."""

HUGE: dict[int, float] = {
    TensorProto.FLOAT: 1e30,
    TensorProto.DOUBLE: 1e300,
    TensorProto.FLOAT16: 6e4,
    TensorProto.BFLOAT16: 1e30,
}
"""What stands for infinity: it overflows again at once where it should."""

GREATEST: dict[int, float] = {
    TensorProto.FLOAT: float(np.finfo(np.float32).max),
    TensorProto.DOUBLE: float(np.finfo(np.float64).max),
    TensorProto.FLOAT16: 65504.0,
    TensorProto.BFLOAT16: float(ml_dtypes.finfo(ml_dtypes.bfloat16).max),
}
"""The greatest finite number, by element type."""

SHORT = frozenset([TensorProto.FLOAT16, TensorProto.BFLOAT16])
"""Floats that CPUs compute as float32."""

NEAR_LIMITS = 64.0
"""A value within this factor of the greatest number may leave the range by noise, or in a sum of its kind."""

_ELEMENTS: dict[np.dtype, int] = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(ml_dtypes.bfloat16): TensorProto.BFLOAT16,
}


def element_of(dtype: np.dtype) -> int | None:
    """The ONNX element type of a float dtype that has an `EPSILON`."""
    return _ELEMENTS.get(dtype)


def is_near_limits(value: Value) -> bool:
    """Whether a tensor is finite and holds a number near the greatest one of its type."""
    element = element_of(value.dtype) if isinstance(value, np.ndarray) else None
    if element is None or not isinstance(value, np.ndarray) or not value.size:
        return False
    greatest = float(np.abs(widen(value)).max())
    return GREATEST[element] / NEAR_LIMITS <= greatest < np.inf


def stand_ins(seed: int, element: int) -> tuple[float, float]:
    """The numbers that replace an infinity and a NaN under a seed."""
    huge = HUGE[element] * (1.0 - 0.5 * (seed % 2))
    return huge, (0.0, huge, -huge, 1.0)[seed % 4]


def perturb_inputs(
    inputs: Mapping[str, Value],
    seed: int,
    *,
    finite: bool = True,
    size: float = NOISE_ULPS,
    is_wide: bool = False,
) -> dict[str, Value]:
    """The inputs with noise of this size, and `finite`; whole numbers stay, they are exact on purpose.

    As in the model, an even seed moves everything the other way than the odd one before it. `is_wide`: one
    unit in the last place for floats of 16 bits.
    """
    rng = np.random.default_rng((seed + 1) // 2)

    def perturbed(value: Value) -> Value:
        if isinstance(value, list):
            return [_perturb_tensor(item, rng, seed, finite, size) for item in value]
        if value is None:
            return None
        is_short = is_wide and element_of(value.dtype) in SHORT
        return _perturb_tensor(value, rng, seed, finite, min(size, 1.0) if is_short else size)

    return {name: perturbed(value) for name, value in inputs.items()}


def _perturb_tensor(value: Tensor, rng: np.random.Generator, seed: int, finite: bool, size: float) -> Tensor:
    element = _ELEMENTS.get(value.dtype)
    if element is None:
        return value
    wide = widen(value).astype(np.float64)
    if finite:
        huge, standing = stand_ins(seed, element)
        wide = np.where(np.isnan(wide), standing, np.clip(wide, -huge, huge))
    drawn = rng.uniform(-1, 1, wide.shape)
    noise = (drawn + np.sign(drawn)) / 2 * size * EPSILON[element] * (1 if seed % 2 else -1)
    with np.errstate(over="ignore"):
        noisy = np.where(wide == np.rint(wide), wide, wide * (1 + noise))
        held = np.clip(noisy, -GREATEST[element], GREATEST[element])
    return np.where(np.isfinite(wide), held, noisy).astype(value.dtype)


def grid_factor(ulps: float, element: int, snaps: float) -> float:
    """The factor that makes a size the number that rounds to a grid of this width."""
    narrow = 2 * min(ulps, MOST_NOISE / EPSILON[element])
    return max(narrow, min(narrow * snaps, MOST_NOISE / 2 / EPSILON[element]))
