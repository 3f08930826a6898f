"""Toy programs."""

from dataclasses import dataclass

from corpus.case import Case
from corpus.formats import find_format
from generators.language.profile import Budget, Counts
from generators.language.values import RandomSource
from generators.strategies import each_seed
from tests.triage.toy_language.program import OPERATORS, Program


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
        return Counts(1, frozenset(self.program.ops), frozenset(), frozenset(), frozenset())


def program(seed: int, nodes: int, budget: Budget) -> ToyProgram:
    """The program of a seed."""
    draws = RandomSource(f"toy/{seed}/{nodes}")
    return ToyProgram(Program(tuple(draws.pick(tuple(OPERATORS)) for _ in range(nodes))))


STRATEGIES = {"toy": each_seed(program)}
