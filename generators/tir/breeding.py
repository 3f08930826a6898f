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
from generators.language.budget import UNLIMITED, Budget
from generators.language.random_source import RandomSource
from generators.pools import BOTH, FRESH, PASSES, PROGRAM, Bred, Entry, Pool
from generators.sequences import LONGEST, Passes, draw_sequence, next_sequence
from generators.tir.blocks import with_root
from generators.tir.costs import is_within
from generators.tir.guiding import Guide, best_passes, enriched, rooms_of
from generators.tir.mutators import all_mutators
from generators.tir.programs import TirProgram, fitting, is_sound, make_program, mutated, sequences_for
from generators.tir.sites import Mutator
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
_LED = 0.85
"""How often a mutation of F is led to kinds of nodes that the passes which change F have not met."""
_SEQUENCES = 6
"""How many sequences of passes the one with the most unmet pairs is chosen from."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The loop with some of its parts. Without `evolves` F and P change together, whatever that meets.

    `early` is how often P changes before N has reached `n_max`, which takes long with hundreds of entries.
    `guided`: coverage says which entry is chosen, which kinds of nodes F gets and which of some sequences P
    is; without it these are drawn, and coverage only says what stays. Without `programs` F stays as it was.
    """

    n_max: int = N_MAX
    keeps: bool = True
    domain: bool = True
    passes: bool = True
    evolves: bool = True
    early: float = 0.0
    guided: bool = True
    programs: bool = True


ALL = Rules()


def breed(seed: int, nodes: int, pool: Pool, rules: Rules = ALL, budget: Budget = UNLIMITED) -> TirProgram:
    """The program of a seed, from an entry of the pool or fresh."""
    draws = RandomSource(f"breed/{seed}/{nodes}")
    guide = Guide.of(pool.seen) if rules.guided and rules.keeps and pool.entries else None
    breeding = _Breeding(draws, seed, nodes, rules, guide, budget)
    if not rules.keeps or not pool.entries or (rules.programs and draws.chance(_FRESH)):
        return breeding.fresh()
    return breeding.bred(pool) or breeding.fresh()


@dataclass(frozen=True, slots=True)
class _Breeding:
    """Makes the program of one seed; without a `guide` nothing but chance leads it."""

    draws: RandomSource
    seed: int
    nodes: int
    rules: Rules
    guide: Guide | None
    budget: Budget

    def bred(self, pool: Pool) -> TirProgram | None:
        """A change of an entry; None if what another seed's values define these do not."""
        draws, guide = self.draws, self.guide
        rooms = rooms_of(guide, pool.entries) if guide is not None else (1.0,) * len(pool.entries)
        entry = draws.weighted(pool.entries, rooms)
        changed = self.part(entry)
        parent, passes = _module(entry.program), entry.passes
        module = self.changed(parent, entry) if changed in (PROGRAM, BOTH) else parent
        if module is parent and not is_sound(module, self.seed):
            return None
        if changed in (PASSES, BOTH):
            others = [each.passes for each in pool.entries if each.passes]
            known = sequences_for(module)
            is_led = guide is not None and changed == PASSES
            found = [
                fitting(change_passes(draws, known, passes, others), module)
                for _ in range(_SEQUENCES if is_led else 1)
            ]
            passes = best_passes(guide, module, found) if guide is not None and is_led else found[0]
        bred = Bred(entry.key, changed)
        return TirProgram(module, make_inputs(module, self.seed), fitting(passes, module), bred)

    def part(self, entry: Entry) -> str:
        """Say what of an entry changes."""
        rules = self.rules
        if not rules.passes:
            return PROGRAM
        if not rules.programs:
            return PASSES
        if not rules.evolves:
            return BOTH
        is_early = rules.early > 0 and self.draws.chance(rules.early)
        return PASSES if is_early or entry.idle >= rules.n_max else PROGRAM

    def changed(self, parent: Module, entry: Entry) -> Module:
        """The program after some mutations, mostly led to what its passes have not met."""
        module = self.led(parent, entry.changed)
        for _ in range(self.draws.pick(_STEPS)):
            module = mutated(self.draws, module, self.seed, _mutators(self.rules), self.budget)
        return module

    def led(self, module: Module, passes: Passes) -> Module:
        """The program with some kinds of nodes that not all of these passes have met."""
        if self.guide is None or not self.draws.chance(_LED):
            return module
        found = enriched(self.draws, module, self.guide.known(passes))
        found = with_root(found) if found is not None else module
        is_fit = is_sound(found, self.seed) and is_within(found, self.budget, self.seed)
        return found if is_fit else module

    def fresh(self) -> TirProgram:
        """A new program with passes of its own, some of them with options."""
        draws, guide, rules = self.draws, self.guide, self.rules
        made = make_program(self.seed, self.nodes, _mutators(rules), budget=self.budget)
        known, module = sequences_for(made.module), made.module
        passes = change_options(draws, known, made.passes) if rules.passes else ()
        if guide is not None:
            if passes and rules.evolves:
                others = (
                    change_options(draws, known, draw_sequence(draws, known)) for _ in range(_SEQUENCES - 1)
                )
                passes = best_passes(guide, module, (passes, *(fitting(each, module) for each in others)))
            module = self.led(module, passes)
        return TirProgram(module, make_inputs(module, self.seed), passes, Bred("", FRESH))


@lru_cache(maxsize=512)
def _module(program: str) -> Module:
    return from_bytes(program.encode())


def _mutators(rules: Rules) -> tuple[Mutator, ...]:
    every = all_mutators()
    return every if rules.domain else tuple(each for each in every if each.name.startswith(GENERAL))


def change_passes(
    draws: RandomSource, sequences: Sequences, passes: Passes, others: Sequence[Passes]
) -> Passes:
    """A fresh sequence, or a mutant of this one, perhaps with the end of another; options change apart."""
    options = tuple(name for name in passes if "=" in name)
    plain = [tuple(name for name in each if "=" not in name) for each in (passes, *others)]
    own = [each for each in plain[:1] if each]
    if not own:
        made = draw_sequence(draws, sequences)
    else:
        made = next_sequence(draws, sequences, own + [each for each in plain[1:] if each][:1])
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
