"""One value that an operator may not bear, put into a program and named: an index out of range, a NaN.

What a backend owes such a program is to survive it; what it computes from it nobody says.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper

from corpus.values import Tensor, Value
from generators.disrupt import leave_shapes_open
from generators.draws import Draws
from generators.grow import Program

_FLOATS = (np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e-40, 1e30, -1.0, 0.0)
_INTS = (-1, 0, 1, -1000)


def endanger(draws: Draws, program: Program) -> tuple[Program, str] | None:
    """The program with one element of an operand that is given changed, and which; None where none is."""
    model = onnx.ModelProto()
    model.CopyFrom(program.model)
    inputs: dict[str, Value] = dict(program.inputs)
    given = {tensor.name: tensor for tensor in _tensors(model.graph)}
    places = [
        (node, at)
        for node in model.graph.node
        for at, name in enumerate(node.input)
        if name in given or isinstance(inputs.get(name), np.ndarray)
    ]
    steering = [place for place in places if place[1]]
    if draws.chance(0.7):
        places = steering or places
    for node, at in draws.sample(places, len(places)):
        name = node.input[at]
        is_input = name in inputs
        before = inputs[name] if is_input else numpy_helper.to_array(given[name])
        after = _changed(draws, before) if isinstance(before, np.ndarray) else None
        if after is None:
            continue
        if is_input:
            inputs[name] = after[0]
        else:
            _fill(given[name], after[0])
        leave_shapes_open(model.graph)
        return Program(
            model, inputs, program.types, program.ranges
        ), f"operand {at} of {node.name} {after[1]}"
    return None


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """The initializers, and what Constants hold."""
    yield from graph.initializer
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            tensor = node.attribute[0].t
            tensor.name = node.output[0]
            yield tensor


def _changed(draws: Draws, array: Tensor) -> tuple[Tensor, str] | None:
    """The array with one element, or each, of another value; None where the type has no such values."""
    if array.dtype.kind not in "iuf" or not array.size:
        return None
    after = array.copy()
    everywhere = draws.chance(0.3)
    with np.errstate(all="ignore"):
        value = np.array(draws.pick(_values(array, everywhere))).astype(array.dtype)
    if everywhere:
        after[...] = value
        return after, f"holds {value} everywhere"
    at = draws.below(array.size)
    after.reshape(-1)[at] = value
    return after, f"holds {value} at {at}"


def _values(array: Tensor, everywhere: bool) -> tuple[float, ...]:
    """Dangerous values of the type, but sizes that only fill the memory: where it is one, it is one alone."""
    if array.dtype.kind == "f":
        return _FLOATS
    limits = np.iinfo(array.dtype)
    far = (1000,) if not everywhere else ()
    most = (int(limits.max),) if limits.bits == 64 else ()
    return (*_INTS, *far, int(limits.min), *most)


def _fill(tensor: onnx.TensorProto, array: Tensor) -> None:
    tensor.ClearField("raw_data")
    tensor.raw_data = array.tobytes()
