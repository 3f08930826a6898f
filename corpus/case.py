"""A case: the program, its inputs, the target and its settings; the only thing that crosses a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corpus.target import Target
from corpus.values import Value


@dataclass(frozen=True)
class ExternalFile:
    """A file of weights beside the model: never read into memory, linked or copied where it is needed.

    `location` is the path by which the model refers to it, relative to the model's folder.
    """

    location: str
    path: Path
    size: int


@dataclass(frozen=True)
class Case:
    """What is tested. Immutable; saved as a folder (`case.json`, the program, `inputs.npz`).

    `program` holds the exact bytes of the program without its external data. `settings` are those of the
    case itself (its pass sequence, its optimisation level), `origin` the path or seed it came from.
    """

    format: str
    program: bytes
    inputs: Mapping[str, Value]
    target: Target | None = None
    external: tuple[ExternalFile, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    origin: str = ""
    notes: tuple[str, ...] = field(default=(), compare=False)
