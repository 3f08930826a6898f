"""Nodes that give random numbers in a noisy program, and names for what such nodes make."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from corpus.values import Tensor
from oracles.numerics.input_noise import EPSILON, Types, static_dims


def constant(name: str, value: Tensor) -> NodeProto:
    """A node that gives a constant tensor."""
    return helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(value))


def scalar(name: str, value: float, element: int) -> NodeProto:
    """A node that gives a constant of rank 0."""
    return helper.make_node("Constant", [], [name], value=helper.make_tensor(name, element, [], [value]))


UNRANDOM_OPSET = 22
"""From here on onnxruntime lacks the operator that draws random numbers."""

MOST_DRAWN = 1 << 20
"""Elements of a constant of noise."""

_PREFIX = "crux_noise_"


@dataclass
class Drawing:
    """The random numbers of one noisy program.

    `seed` chooses them. With `draws` they are drawn here and go into the program as constants.
    """

    types: Types
    seed: int
    draws: bool = field(default=False, kw_only=True)
    _count: int = field(default=0, init=False)
    _opset: int = field(default=0, init=False)
    _raw: dict[str, str] = field(default_factory=dict, init=False)
    """The value whose type a value of ours has."""

    def _uniform(
        self, like: str, target: str, high: float, seed: int, element: int | None = None
    ) -> Iterator[NodeProto]:
        element = element or self.types[like].elem_type
        wide = element in (TensorProto.FLOAT, TensorProto.DOUBLE)
        drawn = target if wide else self._name()
        made_as = element if wide else TensorProto.FLOAT
        if self.draws or self._opset >= UNRANDOM_OPSET:
            yield from self._drawn_here(like, drawn, high, seed, made_as)
        else:
            yield self._drawn_there(like, drawn, high, seed, made_as)
        if not wide:
            yield helper.make_node("Cast", [drawn], [target], to=element)

    def _drawn_there(self, like: str, drawn: str, high: float, seed: int, made_as: int) -> NodeProto:
        return helper.make_node(
            "RandomUniformLike",
            [like],
            [drawn],
            dtype=made_as,
            low=-high,
            high=high,
            seed=float(seed * 10007 + self._count),
        )

    def _drawn_here(self, like: str, drawn: str, high: float, seed: int, made_as: int) -> Iterator[NodeProto]:
        """Yield a constant; the same noise everywhere if the shape is unknown or large."""
        rng = np.random.default_rng((seed, self._count))
        declared = self.types.get(self._raw.get(like, like))
        dims = static_dims(declared) if declared is not None else None
        dtype = np.float64 if made_as == TensorProto.DOUBLE else np.float32
        if dims is not None and math.prod(dims) <= MOST_DRAWN:
            yield constant(drawn, rng.uniform(-high, high, dims).astype(dtype))
            return
        shape = self._name()
        value = onnx.numpy_helper.from_array(np.array([high * rng.choice([-1, 1])], dtype))
        yield helper.make_node("Shape", [like], [shape])
        yield helper.make_node("ConstantOfShape", [shape], [drawn], value=value)

    def _is_float(self, name: str) -> bool:
        declared = self.types.get(self._raw.get(name, name))
        return declared is not None and declared.elem_type in EPSILON

    def _name(self) -> str:
        self._count += 1
        return f"{_PREFIX}{self._count}"
