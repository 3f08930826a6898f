"""The loop of Tzer (section 3.1): a program of the pool changes while that meets new code, then its passes.

`Rules` switches parts of it off, for measurements of what they are worth (section 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from corpus.tir.document import from_bytes
from corpus.tir.program import make_inputs
from corpus.tir.tree import Module
from generators.language.draws import Draws
from generators.pools import BOTH, FRESH, PASSES, PROGRAM, Bred, Entry, Pool
from generators.sequences import LONGEST, Passes, draw_sequence, next_sequence
from generators.tir.mutators import Mutator, all_mutators
from generators.tir.programs import TirProgram, fitting, is_sound, make_program, mutated, sequences_for
from oracles.abilities import Sequences

N_MAX = 5
"""After this many changes of a program without news its passes change, as in the paper."""

GENERAL = ("delete", "insert", "replace", "swap")
"""How the names of the general mutators begin (section 3.2); all others are of the domain (3.3)."""

_FRESH = 0.2
_OPTION = 0.35
_MOST_OPTIONS = 3
_STEPS = (1, 1, 1, 2, 3)
"""How often a program is fresh beside a pool, how often an option changes, how often F is mutated."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The loop with some of its parts. Without `evolves` F and P change together, whatever that meets.

    `early` is how often P changes before N has reached `n_max`, which takes long with hundreds of entries.
    """

    n_max: int = N_MAX
    keeps: bool = True
    domain: bool = True
    passes: bool = True
    evolves: bool = True
    early: float = 0.0


ALL = Rules()


def breed(seed: int, nodes: int, pool: Pool, rules: Rules = ALL) -> TirProgram:
    """Return the program of a seed, from an entry of the pool or fresh."""
    draws = Draws(f"breed/{seed}/{nodes}")
    if not rules.keeps or not pool.entries or draws.chance(_FRESH):
        return _fresh(draws, seed, nodes, rules)
    entry = draws.pick(pool.entries)
    changed = _what(draws, entry, rules)
    parent, passes = _module(entry.program), entry.passes
    module = parent
    if changed in (PROGRAM, BOTH):
        for _ in range(draws.pick(_STEPS)):
            module = mutated(draws, module, seed, _mutators(rules))
    if module is parent and not is_sound(module, seed):
        return _fresh(draws, seed, nodes, rules)  # what another seed's values define, these need not
    if changed in (PASSES, BOTH):
        others = [each.passes for each in pool.entries if each.passes]
        passes = change_passes(draws, sequences_for(module), passes, others)
    return TirProgram(module, make_inputs(module, seed), fitting(passes, module), Bred(entry.key, changed))


def _what(draws: Draws, entry: Entry, rules: Rules) -> str:
    if not rules.passes:
        return PROGRAM
    if not rules.evolves:
        return BOTH
    is_early = rules.early > 0 and draws.chance(rules.early)
    return PASSES if is_early or entry.idle >= rules.n_max else PROGRAM


def _fresh(draws: Draws, seed: int, nodes: int, rules: Rules) -> TirProgram:
    """Return a new program with passes of its own, some of them with options."""
    made = make_program(seed, nodes, _mutators(rules))
    passes = change_options(draws, sequences_for(made.module), made.passes) if rules.passes else ()
    return TirProgram(made.module, made.inputs, passes, Bred("", FRESH))


@lru_cache(maxsize=512)
def _module(program: str) -> Module:
    return from_bytes(program.encode())


def _mutators(rules: Rules) -> tuple[Mutator, ...]:
    every = all_mutators()
    return every if rules.domain else tuple(each for each in every if each.NAME.startswith(GENERAL))


def change_passes(draws: Draws, sequences: Sequences, passes: Passes, others: Sequence[Passes]) -> Passes:
    """A fresh sequence, or a mutant of this one, perhaps with the end of another; options change apart."""
    options = tuple(name for name in passes if "=" in name)
    plain = [tuple(name for name in each if "=" not in name) for each in (passes, *others)]
    own = [each for each in plain[:1] if each]
    if not own:
        made = draw_sequence(draws, sequences)
    else:
        made = next_sequence(draws, sequences, own + [each for each in plain[1:] if each][:1])
    return change_options(draws, sequences, (*options, *made[:LONGEST]))


def change_options(draws: Draws, sequences: Sequences, passes: Passes) -> Passes:
    """Return the sequence with an option more, fewer, or of another value; mostly as it is."""
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
