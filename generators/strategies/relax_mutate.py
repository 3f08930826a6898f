"""Changes to Relax programs: to the one that `--from` names, or to programs grown by type."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import open_case
from generators.language.emit import language_of
from generators.language.profile import UNLIMITED, Budget
from generators.language.values import RandomSource
from generators.relax.mutation.mutations import mutated
from generators.relax.programs import RelaxProgram, make_program


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[RelaxProgram]:
    """One to four changes to each seed's program."""
    given = open_case(source) if source else None
    for seed in seeds:
        if given is not None:
            yield mutant_of(given, seed, nodes, budget)
            continue
        made = make_program(seed, nodes, budget=budget)
        yield mutated(made.program, made.inputs, made.types, _draws(seed, nodes), budget)


def mutant_of(case: Case, seed: int, nodes: int, budget: Budget) -> RelaxProgram:
    """The mutant of a user's case; UserError for one that is no Relax program of tensors."""
    inputs = {name: value for name, value in case.inputs.items() if isinstance(value, np.ndarray)}
    if language_of(case.format).mutant is not mutant_of or len(inputs) < len(case.inputs):
        raise UserError(f"{case.origin}: to mutate, name an ONNX model or a Relax program of tensors")
    return mutated(case.parsed, inputs, {}, _draws(seed, nodes), budget)


def _draws(seed: int, nodes: int) -> RandomSource:
    return RandomSource(f"relax_mutate/{seed}/{nodes}")
