"""Programs of the toy language: their document, and what they mean."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from corpus.errors import UserError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

OPERATORS: Mapping[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "double": lambda x: x + x,
    "half": lambda x: x / 2,
}
SIZE = 2


@dataclass(frozen=True)
class Program:
    """Operators one after the other, the first on an input `x` of `SIZE` floats."""

    ops: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """The document."""
        return json.dumps({"format": "toy", "ops": self.ops}).encode()

    def evaluate(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """The value of the output."""
        value = np.asarray(inputs["x"])
        for op in self.ops:
            value = OPERATORS[op](value)
        return {"out": value}


def parse(program: bytes, where: str = "program") -> Program:
    """Read a document; UserError where it is none."""
    try:
        ops = tuple(json.loads(program)["ops"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{where}: no toy program ({error})") from error
    if not ops or not OPERATORS.keys() >= {*ops}:
        raise UserError(f"{where}: no operators, or unknown ones")
    return Program(ops)


def print_text(program: Program) -> str:
    """A line for each operator."""
    return "".join(f"x = {op}(x)\n" for op in program.ops)
