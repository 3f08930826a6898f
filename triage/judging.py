"""Judges for many cases: one for each target, started when first needed, closed together."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from triage.options import CaseOptions

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.judge import Judge


class Judges:
    """The judges of one command; a context manager."""

    def __init__(self, options: CaseOptions) -> None:
        self.options = options
        self._open: dict[Target, Judge] = {}
        self._stack = ExitStack()

    def of(self, target: Target) -> Judge:
        if target not in self._open:
            self._open[target] = self._stack.enter_context(self.options.judge(target))
        return self._open[target]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
