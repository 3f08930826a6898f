"""Toy programs, each line mostly over the one before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpus.case import Case
from corpus.formats import find_format
from generators.language.profile import UNLIMITED, Budget, Counts
from generators.language.values import RandomSource
from tests.triage.toy_language.program import OPERATORS, Line, Program


@dataclass(frozen=True)
class ToyProgram:
    """A program as a strategy gives it."""

    program: Program
    format = "toy"

    def as_case(self, seed: int) -> Case:
        """The program with made inputs."""
        inputs = find_format(self.format).make_inputs(self.program, seed, {})
        return Case(self.format, self.program.to_bytes(), inputs, origin=f"seed:{seed}")

    def counts(self) -> Counts:
        """Its operators."""
        ops = frozenset(line.op for line in self.program.lines)
        return Counts(1, ops, frozenset(), frozenset(), frozenset())


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[ToyProgram]:
    """A program a seed."""
    for seed in seeds:
        draws = RandomSource(f"toy/{seed}/{nodes}")
        names = ["a", "b"]
        lines = []
        for place in range(nodes):
            op = draws.pick(tuple(OPERATORS))
            others = (draws.pick(tuple(names)) for _ in range(OPERATORS[op][0] - 1))
            lines.append(Line(f"t{place}", op, (names[-1], *others)))
            names.append(f"t{place}")
        yield ToyProgram(Program(("a", "b"), tuple(lines)))
