"""Programs of the toy language: what they are made of, their document, and what they mean."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from corpus.errors import UserError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

OPERATORS: Mapping[str, tuple[int, Callable[..., Array]]] = {
    "add": (2, np.add),
    "sub": (2, np.subtract),
    "mul": (2, np.multiply),
    "max": (2, np.maximum),
    "min": (2, np.minimum),
    "neg": (1, np.negative),
    "abs": (1, np.abs),
    "square": (1, np.square),
    "double": (1, lambda x: x + x),
    "half": (1, lambda x: x / 2),
}
SIZE = 2


@dataclass(frozen=True)
class Line:
    """`name = op(reads)`."""

    name: str
    op: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """Lines over inputs of `SIZE` floats; the last one gives the output."""

    inputs: tuple[str, ...]
    lines: tuple[Line, ...]

    def to_bytes(self) -> bytes:
        """The document."""
        lines = [[line.name, line.op, *line.reads] for line in self.lines]
        return json.dumps({"format": "toy", "inputs": self.inputs, "lines": lines}).encode()

    def evaluate(self, inputs: Mapping[str, Any]) -> Mapping[str, Array]:
        """The value of the output."""
        values = {name: np.asarray(inputs[name]) for name in self.inputs}
        for line in self.lines:
            values[line.name] = OPERATORS[line.op][1](*(values[name] for name in line.reads))
        return {"out": values[self.lines[-1].name]}


def parse(program: bytes, where: str = "program") -> Program:
    """Read a document; UserError where it is none, or a line does not fit."""
    try:
        document = json.loads(program)
        lines = tuple(Line(name, op, tuple(reads)) for name, op, *reads in document["lines"])
        found = Program(tuple(document["inputs"]), lines)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{where}: no toy program ({error})") from error
    known = set(found.inputs)
    for line in found.lines:
        if line.op not in OPERATORS or len(line.reads) != OPERATORS[line.op][0] or not known >= {*line.reads}:
            raise UserError(f"{where}: line {line.name!r} does not fit")
        known.add(line.name)
    if not found.lines:
        raise UserError(f"{where}: no lines")
    return found


def print_text(program: Program) -> str:
    """A line each."""
    return "".join(f"{line.name} = {line.op}({', '.join(line.reads)})\n" for line in program.lines)
