"""The loop of Tzer (section 3.1): a program changes while that meets new code, then its passes change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from corpus.tir.program import from_bytes
from corpus.tir.tree import Module
from generators.language.values import RandomSource
from generators.pools import PASSES, PROGRAM, Bred, Entry, Pool
from generators.sequences import LONGEST, Passes, draw_sequence, next_sequence
from generators.tir.programs import KIND, TirProgram, fitting, is_sound, make_program, mutated, sequences_for
from generators.tir.ranged import inputs_of
from oracles.abilities import Sequences

N_MAX = 5
"""After this many changes of a program without news its passes change, as in the paper."""

_FRESH = 0.85
_OPTION = 0.35
_MOST_OPTIONS = 3
_STEPS = (1, 1, 1, 2, 3)
"""How often a program is fresh beside a pool, how often an option changes, how often F is mutated."""


def breed(seed: int, nodes: int, pool: Pool) -> TirProgram:
    """The program of a seed, from an entry of the pool or fresh."""
    draws, entries = RandomSource(f"breed/{seed}/{nodes}"), pool.of_kind(KIND).entries
    made = _bred(draws, seed, entries) if entries and not draws.chance(_FRESH) else None
    return made or _fresh(draws, seed, nodes)


def _fresh(draws: RandomSource, seed: int, nodes: int) -> TirProgram:
    """A new program, some of its passes with options."""
    made = make_program(seed, nodes)
    passes = change_options(draws, sequences_for(made.module), made.passes)
    return TirProgram(made.module, made.inputs, passes)


def _bred(draws: RandomSource, seed: int, entries: Sequence[Entry]) -> TirProgram | None:
    """A change of an entry; None if what another seed's values define these do not."""
    entry = draws.pick(entries)
    changed = PASSES if entry.idle >= N_MAX else PROGRAM
    module, passes = _module(entry.program), entry.passes
    if not is_sound(module, seed):
        return None
    if changed == PASSES:
        others = [each.passes for each in entries if each.passes]
        passes = change_passes(draws, sequences_for(module), passes, others)
    else:
        for _ in range(draws.pick(_STEPS)):
            module = mutated(draws, module, seed)
    bred = Bred(entry.key, changed, kind=KIND)
    return TirProgram(module, inputs_of(module, seed), fitting(passes, module), bred)


@lru_cache(maxsize=512)
def _module(program: str) -> Module:
    return from_bytes(program.encode())


def change_passes(
    draws: RandomSource, sequences: Sequences, passes: Passes, others: Sequence[Passes]
) -> Passes:
    """A fresh sequence, or a mutant of this one, perhaps with the end of another; options change apart."""
    options = tuple(name for name in passes if "=" in name)
    plain = [tuple(name for name in each if "=" not in name) for each in (passes, *others)]
    own = [each for each in plain[:1] if each]
    pool = own + [each for each in plain[1:] if each][:1]
    made = next_sequence(draws, sequences, pool) if own else draw_sequence(draws, sequences)
    return change_options(draws, sequences, (*options, *made[:LONGEST]))


def change_options(draws: RandomSource, sequences: Sequences, passes: Passes) -> Passes:
    """The sequence with an option more, fewer, or of another value; mostly as it is."""
    known = sequences.options
    options = [name for name in passes if "=" in name]
    rest = tuple(name for name in passes if "=" not in name)
    if known and draws.chance(_OPTION):
        if options and (draws.chance(0.5) or len(options) >= _MOST_OPTIONS):
            options.remove(draws.pick(options))
        else:
            key = draws.pick(tuple(known))
            options = [name for name in options if not name.startswith(f"{key}=")]
            options.append(f"{key}={draws.pick(known[key])}")
    return (*sorted(options), *rest)
