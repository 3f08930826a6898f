"""The values that go in and out of a program, and `inputs.npz`, the file that keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensor = NDArray[Any]
"""A numpy array; bfloat16, float8, float4 and int4 as ml_dtypes' types, strings as numpy `U`."""

Value = Tensor | list[Tensor] | None
"""A tensor, a sequence of tensors, or an absent optional."""

__all__ = ["Tensor", "Value", "np"]
