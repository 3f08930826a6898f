"""NaN and infinity put into a valid program, where they enter an operator whose handling of them is defined.

Where they enter others beside it, what these make of them is nobody's bug, which the judge knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from onnx import NodeProto, TensorProto

from corpus.onnx.types import element_type
from corpus.values import Tensor
from generators.growth.grow import Program
from generators.language.draws import Draws
from oracles.operators import arithmetic_of
from oracles.relation.arithmetic import Nonfinite

VALUES = (np.nan, np.inf, -np.inf)
MOST = 3
"""Elements of one input that change."""
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)


def put_nonfinite(draws: Draws, program: Program) -> Program | None:
    """Return the program with some elements of one input not finite; None where no input can be."""
    names = sorted(_takers(program, _looks)) or sorted(_takers(program, _defines))
    if not names:
        return None
    name = draws.pick(names)
    array = program.inputs[name]
    assert isinstance(array, np.ndarray)
    return replace(program, inputs={**program.inputs, name: _with_some(draws, array)})


def _looks(node: NodeProto) -> bool:
    """Return whether an operator of ONNX looks at its values and does not only move them."""
    return not node.domain and arithmetic_of(node).nonfinite is Nonfinite.DEFINED


def _defines(node: NodeProto) -> bool:
    return arithmetic_of(node).defines_nonfinite


def _takers(program: Program, is_taker: Callable[[NodeProto], bool]) -> Iterator[str]:
    """Yield the float inputs that at least one of these nodes reads."""
    read = {name for node in program.model.graph.node if is_taker(node) for name in node.input}
    for name, value in program.inputs.items():
        is_float = isinstance(value, np.ndarray) and value.size and element_type(value.dtype) in _FLOATS
        if is_float and name in read:
            yield name


def _with_some(draws: Draws, array: Tensor) -> Tensor:
    changed = array.copy()
    for _ in range(1 + draws.below(MOST)):
        changed.reshape(-1)[draws.below(array.size)] = draws.pick(VALUES)
    return changed
