"""Relax programs of TVM, to what generates them."""

from corpus.case import Case
from generators.language.emit import Language
from generators.modes import Mode
from generators.relax.programs import RelaxProgram
from generators.relax.violations import endangered, not_finite, violated
from generators.strategies.relax import mutant_of

_CHANGES = {Mode.DISRUPTIVE: violated, Mode.VULNERABLE: endangered, Mode.NONFINITE: not_finite}


def _in_mode(mode: str, seed: int, program: RelaxProgram) -> Case:
    """The case of a program as a mode has it, whole where nothing fits it; what is changed runs alone."""
    changed = _CHANGES[Mode(mode)](seed, program.alone or program) if mode in _CHANGES else None
    return changed or program.as_case(seed)


LANGUAGE = Language(
    in_mode=_in_mode,
    mutant=mutant_of,
    strategies={"relax": 4.0, "relax_mutate": 1.0, "relax_patterns": 1.0, "relax_high_order": 1.0},
)
