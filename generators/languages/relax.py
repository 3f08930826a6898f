"""Relax programs of TVM, to what generates them."""

from __future__ import annotations

from corpus.case import Case
from generators.language.record import Language
from generators.mutations.modes import Mode
from generators.relax.programs import RelaxProgram
from generators.relax.violations import violated
from generators.strategies.relax_mutate import mutant_of


def _in_mode(mode: str, seed: int, program: RelaxProgram) -> Case:
    """The case of a program, broken where the mode wants that and something fits it."""
    broken = violated(seed, program) if mode == Mode.DISRUPTIVE else None
    return broken or program.as_case(seed)


LANGUAGE = Language(in_mode=_in_mode, mutant=mutant_of)
