"""The loop of Tzer (section 3.1): a program of the pool changes while that meets new code, then its passes.

`Guide.of` reads what a pool has met. A program's change is led to kinds that the passes which change the
program have not met (`enriched`), and a sequence of passes is the best of some by the same count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce

from corpus.tir.forms import is_float
from corpus.tir.program import from_bytes
from corpus.tir.script_expressions import NODES
from corpus.tir.tree import Body, For, Module, Stmt, Store
from corpus.tir.values import Binary, Call, Cast, Expr, Unary, type_of
from corpus.tir.walk import walk
from generators.language.profile import UNLIMITED, Budget
from generators.language.values import RandomSource
from generators.pools import BEFORE, PASSES, PROGRAM, Bred, Entry, Pool
from generators.sequences import LONGEST, Passes, draw_sequence, next_sequence
from generators.tir.blocks import with_root
from generators.tir.frame import is_within, static_shape
from generators.tir.programs import KIND, TirProgram, fitting, is_sound, make_program, mutated, sequences_for
from generators.tir.ranged import inputs_of
from generators.tir.sites import Site, allocates_nothing, pick_site
from generators.tir.values import FLOAT_TYPES, INTEGER_TYPES, Sampler, usable
from oracles.abilities import Sequences

_NODES = {
    "Alloc": "AllocBuffer",
    "Assert": "AssertStmt",
    "Attr": "AttrStmt",
    "Block": "SBlock",
    "If": "IfThenElse",
    "Load": "TensorLoad",
    "Store": "BufferStore",
}
_OPERATORS = {**NODES, "not": "Not"}
"""TVM's names of nodes and operators, where they are not the tree's own."""

_CANDIDATES, _MOST_NEW = 72, 18
"""How many expressions are drawn to find such of wanted kinds, and how many of these are stored."""
_STORED = 3
"""How many of them one statement holds at most."""
_UNSEEN = 0.05
"""What a pass counts that has never changed a program, beside one that has."""
_LARGE = 3_000
"""Bytes of a program's document from which on it is chosen less often: its tests cost more."""


@dataclass(frozen=True, slots=True, eq=False)
class Guide:
    """For each pass the kinds of nodes that it has met in functions which it changed, and all kinds."""

    met: Mapping[str, frozenset[str]]
    kinds: frozenset[str]

    @classmethod
    def of(cls, seen: frozenset[str]) -> Guide:
        """Read a pool's coverage."""
        return _guide(seen)

    def known(self, passes: Iterable[str]) -> frozenset[str]:
        """The kinds that each of the passes has met."""
        return frozenset.intersection(*self._met_by(name for name in passes if name in self.met))

    def _met_by(self, passes: Iterable[str]) -> list[frozenset[str]]:
        return [self.met.get(name, frozenset()) for name in passes] or [self.kinds]

    def room(self, entry: Entry) -> float:
        """How many pairs are left to the passes that change a program, for what its tests cost."""
        left = sum(len(self.kinds) - len(each) for each in self._met_by(entry.changed))
        return (1 + left) / max(1.0, len(entry.program) / _LARGE)

    def unmet(self, kinds: frozenset[str], passes: Passes) -> float:
        """How many pairs of the passes and these kinds no test has met."""
        unseen = len(kinds) * _UNSEEN
        names = dict.fromkeys(passes)
        return sum(len(kinds - self.met[name]) if name in self.met else unseen for name in names)


@lru_cache(maxsize=4)
def _guide(seen: frozenset[str]) -> Guide:
    met: dict[str, set[str]] = {}
    for piece in seen:
        name, sign, kind = piece.partition(BEFORE)
        if sign:
            met.setdefault(name, set()).add(_short(kind))
    return Guide({name: frozenset(kinds) for name, kinds in met.items()}, frozenset().union(*met.values()))


@lru_cache(maxsize=4)
def rooms_of(guide: Guide, entries: tuple[Entry, ...]) -> tuple[float, ...]:
    """The room of each entry of a pool."""
    return tuple(map(guide.room, entries))


def _short(kind: str) -> str:
    """A kind without the family of what is called: `Call tirx.sin` is `Call sin`."""
    head, _, name = kind.partition(" ")
    return f"{head} {name.rpartition('.')[2]}" if head == "Call" else kind


def kind_of(node: Stmt | Expr) -> str:
    """The kind of a node, as TVM names it."""
    match node:
        case For():
            return f"For {node.kind}"
        case Call():
            return f"Call {node.callee}"
        case Cast():
            return f"Cast {node.dtype}"
        case Binary() | Unary():
            return _OPERATORS.get(node.op, node.op)
    name = type(node).__name__
    return _NODES.get(name, name)


def kinds_of(node: object) -> frozenset[str]:
    """The kinds of statements and expressions in a tree."""
    return frozenset(kind_of(each) for each in walk(node) if isinstance(each, Stmt | Expr))


def best_passes(guide: Guide, module: Module, found: Sequence[Passes]) -> Passes:
    """The sequence of which the most pairs with the module's kinds are unmet; the first of equals."""
    kinds = kinds_of((module.main,))
    return max(found, key=lambda passes: guide.unmet(kinds, passes))


def enriched(draws: RandomSource, module: Module, known: frozenset[str]) -> Module | None:
    """Store values of kinds beside the known ones before a statement; None if none could be drawn there."""
    site = pick_site(draws, module, Stmt, allocates_nothing)
    if site is None:
        return None
    found = _drawn(draws, site, known)
    stores = [_stored(draws, site, found[at : at + _STORED]) for at in range(0, len(found), _STORED)]
    made: Body = tuple(each for each in stores if each is not None)
    return site.put(module, (*made, site.stmt)) if made else None


def _drawn(draws: RandomSource, site: Site[Stmt], known: frozenset[str]) -> list[Expr]:
    """Return small expressions, each of which holds a kind that is not known and none before it holds."""
    sampler, found, met = Sampler(draws, site.frame), list[Expr](), set(known)
    for _ in range(_CANDIDATES):
        made = sampler.value(draws.pick((*FLOAT_TYPES, draws.pick(INTEGER_TYPES), "bool")), 1).expr
        new = kinds_of((made,)) - met
        if new:
            found.append(made)
            met |= new
        if len(found) == _MOST_NEW:
            break
    return found


def _stored(draws: RandomSource, site: Site[Stmt], values: Sequence[Expr]) -> Stmt | None:
    """One store of the sum of some values, as floats; None where no buffer holds such."""
    known = [each for each in site.frame.buffers if usable(each) and is_float(each.dtype)]
    if not known:
        return None
    buffer = draws.pick(known)
    parts = [each if type_of(each) == buffer.dtype else Cast(buffer.dtype, each) for each in values]
    total = reduce(partial(Binary, "add"), parts)
    shape = static_shape(buffer) or ()
    return Store(buffer.name, Sampler(draws, site.frame).indices(shape), total)


N_MAX = 5
"""After this many changes of a program without news its passes change, as in the paper."""

_FRESH = 0.85
_OPTION = 0.35
_MOST_OPTIONS = 3
_STEPS = (1, 1, 1, 2, 3)
"""How often a program is fresh beside a pool, how often an option changes, how often F is mutated."""
_LED = 0.85
"""How often a mutation of F is led to kinds of nodes that the passes which change F have not met."""
_SEQUENCES = 6
"""How many sequences of passes the one with the most unmet pairs is chosen from."""


def breed(seed: int, nodes: int, pool: Pool, budget: Budget = UNLIMITED) -> TirProgram:
    """The program of a seed, from an entry of the pool or fresh."""
    draws, pool = RandomSource(f"breed/{seed}/{nodes}"), pool.of_kind(KIND)
    guide = Guide.of(pool.seen) if pool.entries else None
    breeding = _Breeding(draws, seed, nodes, guide, budget)
    if guide is None or draws.chance(_FRESH):
        return breeding.fresh()
    return breeding.bred(pool, guide) or breeding.fresh()


@dataclass(frozen=True, slots=True)
class _Breeding:
    """Makes the program of one seed; without a `guide` nothing but chance leads it."""

    draws: RandomSource
    seed: int
    nodes: int
    guide: Guide | None
    budget: Budget

    def bred(self, pool: Pool, guide: Guide) -> TirProgram | None:
        """A change of an entry; None if what another seed's values define these do not."""
        entry = self.draws.weighted(pool.entries, rooms_of(guide, pool.entries))
        changed = PASSES if entry.idle >= N_MAX else PROGRAM
        parent, passes = _module(entry.program), entry.passes
        module = self.changed(parent, entry) if changed == PROGRAM else parent
        if module is parent and not is_sound(module, self.seed):
            return None
        if changed == PASSES:
            others = [each.passes for each in pool.entries if each.passes]
            passes = self.changed_passes(guide, module, passes, others)
        bred = Bred(entry.key, changed, kind=KIND)
        return TirProgram(module, inputs_of(module, self.seed), fitting(passes, module), bred)

    def changed_passes(
        self, guide: Guide, module: Module, passes: Passes, others: Sequence[Passes]
    ) -> Passes:
        """The best of some changes of a sequence."""
        known = sequences_for(module)
        made = (change_passes(self.draws, known, passes, others) for _ in range(_SEQUENCES))
        return best_passes(guide, module, [fitting(each, module) for each in made])

    def changed(self, parent: Module, entry: Entry) -> Module:
        """The program after some mutations, mostly led to what its passes have not met."""
        module = self.led(parent, entry.changed)
        for _ in range(self.draws.pick(_STEPS)):
            module = mutated(self.draws, module, self.seed, self.budget)
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
        draws, guide = self.draws, self.guide
        made = make_program(self.seed, self.nodes, budget=self.budget)
        known, module = sequences_for(made.module), made.module
        passes = change_options(draws, known, made.passes)
        if guide is not None:
            if passes:
                drawn = (draw_sequence(draws, known) for _ in range(_SEQUENCES - 1))
                others = (fitting(change_options(draws, known, each), module) for each in drawn)
                passes = best_passes(guide, module, (passes, *others))
            module = self.led(module, passes)
        return TirProgram(module, inputs_of(module, self.seed), passes)


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
