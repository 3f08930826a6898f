"""What is done to a program before it is a case, and what the case then owes.

A valid program must run and give right results, of NaN and infinity too where these are defined; a broken one
must be refused, an endangered one survived.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from corpus.case import Case, Remark
from generators.growth.grow import Program
from generators.language.random_source import RandomSource
from generators.mutations.disrupt import disrupt
from generators.mutations.hazards import endanger, put_nonfinite
from oracles.run import REFUSAL, SURVIVAL


class Mode(StrEnum):
    """Valid programs; broken ones; ones with one dangerous thing; valid ones of values that are not finite.

    Or all of these, mostly valid ones.
    """

    STRICT = "strict"
    DISRUPTIVE = "disruptive"
    VULNERABLE = "vulnerable"
    NONFINITE = "nonfinite"
    MIXED = "mixed"


MODE_SHARES = {Mode.DISRUPTIVE: 0.06, Mode.VULNERABLE: 0.1, Mode.NONFINITE: 0.08, Mode.STRICT: 0.76}
"""The shares of a mixture; no value but a finite one fits two in three of those that are not finite."""


def mode_of(mode: Mode, seed: int) -> Mode:
    """The mode of one program of a mixture; any other mode is everyone's."""
    if mode is not Mode.MIXED:
        return mode
    form = RandomSource(f"which mode/{seed}").random()
    for each, share in MODE_SHARES.items():
        if form < share:
            return each
        form -= share
    return Mode.STRICT


def in_mode(mode: str, seed: int, program: Program) -> Case:
    """The case of a program as the mode has it: what it owes is a setting, what was done to it a note.

    It is whole where nothing fits it.
    """
    draws = RandomSource(f"mode/{seed}")
    if mode == Mode.DISRUPTIVE and (broken := disrupt(draws, program)):
        changed, demand, note = replace(program, model=broken[0]), REFUSAL, Remark.VIOLATION.note(broken[1])
    elif mode == Mode.VULNERABLE and (endangered := endanger(draws, program)):
        changed, demand, note = endangered[0], SURVIVAL, Remark.HAZARD.note(endangered[1])
    elif mode == Mode.NONFINITE and (special := put_nonfinite(draws, program)):
        return special.as_case(seed)
    else:
        return program.as_case(seed)
    return replace(replace(changed, fires=()).as_case(seed), settings=(demand,), notes=(note,))
