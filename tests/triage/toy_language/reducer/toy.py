"""The toy language to the reducer."""

from dataclasses import dataclass, replace
from typing import Self

from corpus.case import Case
from reducer.language import Language
from reducer.search import Items
from reducer.subject.base import Size, Subject
from tests.triage.toy_language.program import Line, Program


@dataclass(frozen=True)
class ToySubject(Subject):
    """The smallest failing program so far."""

    program: Program
    is_valid = True

    def measured(self) -> Size:
        """Lines, what flows in, bytes."""
        return len(self.program.lines), 0, 0, len(self.program.inputs), len(self.program.to_bytes())

    def case(self, like: Case) -> Case:
        """The program with its inputs."""
        return replace(like, program=self.program.to_bytes(), inputs=self.inputs)

    def embedded(self) -> Self:
        """It has nothing outside."""
        return self

    def keep(self, kept: Items) -> Self | None:
        """The lines of these places; who reads another reads what that one read first."""
        instead: dict[str, str] = {}
        lines = []
        for place, line in enumerate(self.program.lines):
            reads = tuple(instead.get(name, name) for name in line.reads)
            if place in kept:
                lines.append(Line(line.name, line.op, reads))
            else:
                instead[line.name] = reads[0]
        used = {name for line in lines for name in line.reads}
        inputs = tuple(name for name in self.program.inputs if name in used)
        if not lines:
            return None
        values = {name: self.inputs[name] for name in inputs}
        return replace(self, program=Program(inputs, tuple(lines)), inputs=values)


LANGUAGE = Language(
    subject=ToySubject, open=lambda case, pool: ToySubject(inputs=case.inputs, program=case.parsed)
)
