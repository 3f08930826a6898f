"""Judges for many cases: one for each target and format, started when first needed, closed together."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from triage.console.options import CaseOptions

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.judge import Judge


class Judges:
    """The judges of one command; a context manager."""

    def __init__(self, options: CaseOptions) -> None:
        self.options = options
        self._open: dict[tuple[Target, str], Judge] = {}
        self._stack = ExitStack()

    def of(self, target: Target, format: str = "onnx") -> Judge:
        """Return the judge of a target for programs of a format, opened when first asked for."""
        key = target, format
        if key not in self._open:
            self._open[key] = self._stack.enter_context(self.options.judge(target, format=format))
        return self._open[key]

    def begin(self, word: str) -> None:
        """Start what the case that a word names will need, where that can be told without opening it."""
        from corpus.onnx.client import begin

        if Path(word).suffix == ".onnx" and Path(word).is_file():
            self.of(self.options.target_of(None)).executor.begin()
            begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
