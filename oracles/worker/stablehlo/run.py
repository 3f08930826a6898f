"""What compilers of StableHLO are given: the text of a module, values, and the names of its results."""

import json
from typing import Any

import numpy as np

from oracles.worker.arrays import literal
from oracles.worker.onnx.program import to_array
from oracles.worker.stablehlo.build import built
from oracles.worker.stablehlo.tensors import WIDE, dtype_of


def prepared(
    ir: Any, context: Any, program: bytes, inputs: "dict[str, Any]", settings: "dict[str, Any]", outputs: Any
) -> "tuple[str, list[Any], list[tuple[str, Any]]]":
    """The text of a program's module, the values to call it with, and its results' names and dtypes.

    With `double` floats are float64; with `outputs` these are its results, those that are tuples left out.
    """
    double = bool(settings.get("double"))
    text, results = built(ir, context, program.decode(), double, outputs)
    feeds = json.loads(program)["main"]["inputs"]
    values = [_fitted(inputs[name], dtype, double) for name, dtype, *_ in feeds]
    return text, values, [(name, dtype_of(dtype)) for name, dtype in results]


def _fitted(value: Any, dtype: str, double: bool) -> Any:
    """An input in the element type that it is declared with; short floats come by their bits."""
    array = np.asarray(to_array(value))
    return array.astype(dtype_of(WIDE.get(dtype, dtype))) if double else array


def source(
    ir: Any, context: Any, program: bytes, inputs: "dict[str, Any]", bits: bool = False
) -> "dict[str, Any]":
    """`module`: an assignment of its text to `MODULE`; `inputs`: the values to call it with, as code."""
    text, values, _ = prepared(ir, context, program, inputs, {}, None)
    names = [name for name, *_ in json.loads(program)["main"]["inputs"]]
    lines = [f"{literal(each, bits)},  # {name}" for each, name in zip(values, names)]  # noqa: B905
    escaped = text.replace("\\", "\\\\")
    return {"module": np.array(f'MODULE = """\\\n{escaped}"""'), "inputs": np.array("\n".join(lines))}
