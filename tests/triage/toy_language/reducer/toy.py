"""The toy language to the reducer."""

from dataclasses import dataclass, replace
from typing import Self

from corpus.case import Case
from reducer.language import Language
from reducer.search import Items
from reducer.subject.base import Size, Subject
from tests.triage.toy_language.program import Program


@dataclass(frozen=True)
class ToySubject(Subject):
    """The smallest failing program so far."""

    program: Program
    is_valid = True

    def measured(self) -> Size:
        """Operators, what flows in, bytes."""
        return len(self.program.ops), 0, 0, 1, len(self.program.to_bytes())

    def case(self, like: Case) -> Case:
        """The program with its inputs."""
        return replace(like, program=self.program.to_bytes(), inputs=self.inputs)

    def embedded(self) -> Self:
        """It has nothing outside."""
        return self

    def keep(self, kept: Items) -> Self | None:
        """The operators of these places."""
        ops = tuple(op for place, op in enumerate(self.program.ops) if place in kept)
        return replace(self, program=Program(ops)) if ops else None


LANGUAGE = Language(
    subject=ToySubject, open=lambda case, pool: ToySubject(inputs=case.inputs, program=case.parsed)
)
