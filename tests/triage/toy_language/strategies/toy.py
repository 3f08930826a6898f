"""Toy programs, each line mostly over the one before."""

from dataclasses import dataclass

from corpus.case import Case
from corpus.formats import find_format
from generators.language.profile import Budget, Counts
from generators.language.values import RandomSource
from generators.strategies import each_seed
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


def program(seed: int, nodes: int, budget: Budget) -> ToyProgram:
    """The program of a seed."""
    draws = RandomSource(f"toy/{seed}/{nodes}")
    names = ["a", "b"]
    lines = []
    for place in range(nodes):
        op = draws.pick(tuple(OPERATORS))
        others = (draws.pick(tuple(names)) for _ in range(OPERATORS[op][0] - 1))
        lines.append(Line(f"t{place}", op, (names[-1], *others)))
        names.append(f"t{place}")
    return ToyProgram(Program(("a", "b"), tuple(lines)))


STRATEGIES = {"toy": each_seed(program)}
