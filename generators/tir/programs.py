"""Whole programs: a function grown from a seed, mutated some times, with values and a sequence of passes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from corpus.case import Case
from corpus.errors import UserError
from corpus.tir.program import from_bytes, has_blocks, marks, parse, to_bytes, words
from corpus.tir.promises import kept
from corpus.tir.scopes import is_well_formed
from corpus.tir.tree import Block, For, Function, Module, Store, is_jump
from corpus.tir.values import Var, type_of
from corpus.tir.walk import expressions, statements, walk
from corpus.values import Value
from generators.language.profile import Counts
from generators.language.values import RandomSource
from generators.pools import Bred
from generators.sequences import Passes, draw_sequence
from generators.tir.blocks import drawn_schedule, in_blocks, staged, with_root
from generators.tir.calls import outlined, with_open_sizes
from generators.tir.frame import Names, start_of
from generators.tir.mutators import all_mutators
from generators.tir.ranged import has_extremes, inputs_of
from generators.tir.sites import Mutator, is_serial
from generators.tir.statements import USUAL, WIDE, Limits, Maker
from generators.tir.values import usable
from oracles.abilities import Sequences
from oracles.backends import find_backend
from oracles.tir.interpreter import interpret

ENTRY = "main"
KIND = "tir"
"""Of a pool's entries those that these programs are bred from."""
_ATTEMPTS = 12
_MOST_MUTATIONS = 6
_MOST_STEPS = 3_000
_IN_BLOCKS = 0.35
_WITH_PASSES = 0.75
"""How many programs come as blocks instead of plain loops, and how many with passes of their own."""
_WIDE = 0.25
"""How many programs have buffers of a few hundred elements."""
_LOWERED = 0.12
"""How many programs start from an operator that TVM has lowered."""
_STAGED, _SCHEDULED = 0.2, 0.6
"""How many programs start as a chain of blocks, and how many of all with named blocks are scheduled."""
_CALLED, _OPEN = 0.15, 0.3
"""How often a statement becomes a function, and how many programs have sizes that their caller decides."""
_DOUBLED, _DOUBLES, _DOUBLED_FIRST = "doubled", "s_tir.InjectDoubleBuffer", 0.8
"""A mark, the pass that takes it, and how often that pass comes first: TVM's pipeline ends at most others."""


@dataclass(frozen=True)
class TirProgram:
    """A module, the values of its parameters, the passes it is put through, and what it was bred from."""

    module: Module
    inputs: Mapping[str, Value]
    passes: Passes = ()
    bred: Bred = field(default=Bred(kind=KIND))

    format: ClassVar[str] = "tir"

    def as_case(self, seed: int) -> Case:
        """The case that a campaign judges."""
        case = Case(self.format, to_bytes(self.module), dict(self.inputs), origin=f"seed:{seed}")
        return case.with_passes(self.passes)

    def counts(self) -> Counts:
        """Kinds of statements and operators, these by type, and which follows which."""
        kinds = words(self.module)
        typed = frozenset(
            (type(expr).__name__, getattr(expr, "op", getattr(expr, "callee", "")), type_of(expr))
            for expr in expressions((self.module.main,))
        )
        return Counts(1, frozenset(kinds), typed, frozenset(), frozenset(pairwise(kinds)))


def make_program(seed: int, nodes: int, source: Path | None = None) -> TirProgram:
    """Make the program of a seed, with about `nodes` statements before mutation.

    Some start from a lowered operator instead; all of them from the programs of `source`, if it is given.
    """
    draws = RandomSource(f"tir/{seed}/{nodes}")
    module = _start(draws, seed, nodes, source)
    for _ in range(draws.below(_MOST_MUTATIONS + 1)):
        module = mutated(draws, module, seed)
    module = _in_functions(draws, module, seed)
    if draws.chance(_IN_BLOCKS) and not has_blocks(module) and len(module.functions) == 1:
        module = in_blocks(module)
    steps = drawn_schedule(draws, module) if draws.chance(_SCHEDULED) else ()
    if steps and not is_sound(module, seed, in_full=True):
        steps = ()
    return TirProgram(module, inputs_of(module, seed), fitting((*steps, *_passes(draws, module)), module))


def _in_functions(draws: RandomSource, module: Module, seed: int) -> Module:
    """The module with parts of it in functions of their own, or with a size that only a caller knows."""
    while draws.chance(_CALLED):
        found = outlined(draws, module)
        module = found if found is not None and is_sound(found, seed) else module
    if draws.chance(_OPEN):
        found = with_open_sizes(draws, module, seed)
        module = found if is_sound(found, seed) else module
    return module


def _start(draws: RandomSource, seed: int, nodes: int, source: Path | None) -> Module:
    """The module that mutation begins with, sound with the inputs of its seed."""
    is_lowered = source is not None or draws.chance(_LOWERED)
    is_staged = not is_lowered and draws.chance(_STAGED)
    limits = WIDE if draws.chance(_WIDE) else USUAL
    for _ in range(_ATTEMPTS):
        if is_staged:
            module = staged(draws, ENTRY, extreme=has_extremes(seed))
        else:
            module = draws.pick(lowered(source)) if is_lowered else grown(draws, nodes, limits, seed)
        if is_sound(module, seed):
            return module
    return grown(RandomSource("tir/plain"), 1)


SHIPPED = Path(__file__).with_name("lowered.jsonl")
"""A module of one PrimFunc a line: operators as TVM lowers them, alone and fused.

They come from small torch modules (attention, norms, convolution, pools, rotary embedding and others) and
from ONNX models that our generator grows.
"""


@lru_cache(maxsize=4)
def lowered(source: Path | None = None) -> tuple[Module, ...]:
    """The modules that are shipped, or those of a folder's `.tir.json` files, in the order of names.

    Raises UserError for a folder without any, and for a file that holds no program.
    """
    if source is None:
        return _usable(from_bytes(line) for line in SHIPPED.read_bytes().splitlines())
    files = [source] if source.is_file() else sorted(source.rglob("*.tir.json"))
    found = _usable(parse(each.read_bytes(), str(each)) for each in files)
    if not found:
        raise UserError(f"{source}: holds no .tir.json file of one function over plain buffers")
    return found


def _usable(modules: Iterable[Module]) -> tuple[Module, ...]:
    return tuple(each for each in modules if can_start(each))


def can_start(module: Module) -> bool:
    """Say whether a module is of one function that has a buffer which statements can be grown for."""
    return len(module.functions) == 1 and any(map(usable, module.main.buffers))


def grown(draws: RandomSource, nodes: int, limits: Limits = USUAL, seed: int | None = None) -> Module:
    """A module of one function, grown by construction for the values of a seed; for small ones without."""
    maker = Maker(draws, Names(), limits)
    buffers = tuple(maker.buffer("A") for _ in range(draws.between(2, 4)))
    numbers = (Var(maker.names.fresh("n")),) if draws.chance(0.3) else ()
    empty = Function((*buffers, *numbers), ())
    frame = start_of(empty, extreme=seed is not None and has_extremes(seed))
    return Module({ENTRY: Function(empty.params, maker.body(frame, nodes))})


def mutated(draws: RandomSource, module: Module, seed: int) -> Module:
    """The module after one mutation, of those that leave it sound; itself where none of a few does."""
    return mutated_by(draws.sample(all_mutators(), 4), draws, module, seed)


def mutated_by(mutators: Iterable[Mutator], draws: RandomSource, module: Module, seed: int) -> Module:
    """The module after the first of these mutators that leaves it sound; itself where none does."""
    for mutator in mutators:
        changed = mutator.mutate(draws, module)
        found = with_root(kept(changed)) if changed is not None else module
        if found == module or (_stores(module) and not _stores(found)):
            continue  # what stores nothing shows nothing
        if is_sound(found, seed):
            return found
    return module


def _stores(module: Module) -> bool:
    return any(isinstance(stmt, Store) for stmt in statements((module.main,)))


def is_sound(module: Module, seed: int, *, in_full: bool = False) -> bool:
    """Whether it is well-formed and, with a seed's inputs, defined throughout; for schedules `in_full`."""
    loops = (stmt for stmt in statements(module.main.body) if isinstance(stmt, For))
    if not is_well_formed(module) or not all(map(_has_its_stages, loops)):
        return False
    inputs = inputs_of(module, seed)
    return interpret(module, inputs, trials=0, steps=_MOST_STEPS, in_full=in_full).is_defined


def _has_its_stages(loop: For) -> bool:
    stages = loop.annotations.get("software_pipeline_stage")
    if stages is None:
        return True
    whole = loop.body[0] if len(loop.body) == 1 and is_serial(loop) else None
    if not isinstance(whole, Block) or len(whole.body) != len(stages):
        return False
    is_whole = all(isinstance(each, Block) and len(each.body) == 1 for each in whole.body)
    return is_whole and not any(map(is_jump, walk(whole)))


def _passes(draws: RandomSource, module: Module) -> Passes:
    """A sequence that suits the module's form; none for some."""
    if not draws.chance(_WITH_PASSES):
        return ()
    drawn = draw_sequence(draws, sequences_for(module))
    if _DOUBLED in marks(module) and draws.chance(_DOUBLED_FIRST):
        options = [name for name in drawn if "=" in name]
        drawn = (*options, _DOUBLES, *(name for name in drawn if "=" not in name))
    return fitting(drawn, module)


def sequences_for(module: Module) -> Sequences:
    """What sequences for a module of this form are made of."""
    found = find_backend("tvm").sequences
    assert found is not None
    assert found.on_loops is not None
    return found.on_loops(found.facts_of("tir", to_bytes(module)))


def fitting(drawn: Passes, module: Module) -> Passes:
    """Keep the options of a sequence, and the passes that can run on a module of this form."""
    sequences = find_backend("tvm").sequences
    assert sequences is not None
    facts = sequences.facts_of("tir", to_bytes(module))
    names: list[str] = []
    for name in (each for each in drawn if each.startswith(("tirx.", "s_tir."))):
        if not sequences.misplaced((*names, name), facts):
            names.append(name)
    return tuple(names)
