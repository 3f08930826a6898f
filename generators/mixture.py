"""What a campaign tests: the case of every seed, by strategies in turns, some of them broken on purpose.

Seeds come in blocks. A block is made by one strategy, so that one which learns within a batch may; which
strategy, how large its programs are and what is done to each of them follows from the seeds alone. So a seed
gives the same case wherever a run begins and in whichever process.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from corpus.case import Case, Remark
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.processes import call_apart
from generators.feedback import BLOCK, NOTHING, CoverageSnapshot, Shard, arm, shares_of_languages
from generators.language.emit import Made, language_of
from generators.language.profile import UNLIMITED, Budget, Counts
from generators.language.values import RandomSource
from generators.legality import ANYTHING, Legality, forms_of
from generators.modes import Mode, mode_of
from generators.pools import Bred
from generators.sequences import long_sequences, sequences
from generators.strategies import DEFAULT, find_strategy, find_taught
from generators.strategies.coverage import Seen
from oracles.backends import find_backend
from oracles.extras import provide

MIXED = "mixed"
MUTANTS = "relax_mutate"
"""The strategy whose programs come with long sequences of passes: a mutant is to mean the same after them."""

_SHARES = {
    "random": 3.5,
    "coverage": 1.5,
    "functions": 2.0,
    "backward": 1.2,
    "mutate": 0.6,
    "uniform": 1.0,
    "patterns": 1.0,
}
"""By the causes that each alone meets in the same CPU time."""
_OWN = 90.0
"""The share of programs of the target's own operators, where it has such."""
SOLVED = "smt"
_OF_SOLVED = 0.005
"""The share of blocks whose sizes a solver finds, if one is installed; all other blocks stay as they are."""
_SIZES = (5, 8, 10, 10, 14)
_SMALL, _FEW = 0.7, (1, 1, 1, 2, 3)
"""How often a broken or endangered program of a mixture is one of few nodes, and of how many.

One operator is enough for a violation (HirFuzz §5.5), and each of its operands and attributes comes up.
"""

_USUAL = "onnx"
"""The format of the programs of a mixture, but for those of the languages `beside`."""
_UNGUIDED = frozenset({"coverage", "tir"})
"""A mixture that is after failures draws these without what the campaign has met.

Guided by that they meet more operators and shapes, or more that passes do, and fewer symptoms in the same
time: a quarter, and a twelfth.
"""
_ANEW = 12
"""How often a program is drawn anew that the target has not all of; a mixture then comes to `random`."""
_APART = 1 << 44
"""What is added to a seed for each of these times."""
_SPARED = 0.75
"""How many programs do without what is worn: what led to known failures alone may yet lead to others."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of programs: a `strategy` or a mixture of all, and a size (`nodes`) or several (None).

    With `sequences` half of the cases have one of the passes of the backend that `passes_of` names; with
    `given` each has that one. A mixture for a target with operators of its own holds the strategy `dialect`;
    one for a target that runs further languages gives the strategies `beside` their blocks, by language.
    """

    strategy: str = MIXED
    mode: Mode = Mode.MIXED
    nodes: int | None = None
    source: Path | None = None
    trust: bool = False
    sequences: bool = True
    passes_of: str = ""
    given: tuple[str, ...] = ()
    dialect: str = ""
    legality: Legality = ANYTHING
    beside: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    budget: Budget = UNLIMITED
    shard: Shard | None = None


PLAN = Plan()


@dataclass(frozen=True, slots=True)
class DrawnCase:
    """The case of a seed, what its program holds (operators, pieces of coverage, forms), arm and breeding."""

    seed: int
    case: Case
    covered: Mapping[str, int]
    arm: str = ""
    forms: tuple[str, ...] = ()
    bred: Bred | None = None


def make_cases(plan: Plan, seeds: range) -> Iterator[Case]:
    """The case of each seed, in order, of a campaign that learns nothing."""
    return (drawn.case for drawn in make_tests(plan, seeds))


def make_tests(plan: Plan, seeds: range, lesson: CoverageSnapshot | None = None) -> Iterator[DrawnCase]:
    """The case of each seed, in order; with a lesson some strategies draw from it, and coverage is told."""
    calls_again = find_backend(plan.passes_of).calls_again if plan.passes_of else ()
    for first in range(seeds.start - seeds.start % BLOCK, seeds.stop, BLOCK):
        block = range(first, min(first + BLOCK, seeds.stop))
        making = long_sequences if plan.strategy == MUTANTS else sequences
        drawn = making(block, plan.passes_of if plan.sequences and not plan.given else "")
        passes = [plan.given or each for each in drawn]
        learned = lesson or NOTHING
        turn, refused, worn = _turn(plan, block, learned), learned.refusals, learned.worn
        small = frozenset(seed for seed in block if _is_small(plan, turn, seed))
        programs = _programs(plan, turn, [seed for seed in block if seed not in small], lesson)
        for seed in block:
            program = None if seed in small else next(programs)
            if seed >= seeds.start:
                spared = _spared(plan, worn, seed)
                mode, own, tested = _allowed(plan, turn, seed, program, refused, spared)
                covered = language_of(tested.format).coverage(tested) if lesson is not None else {}
                case = _case(mode, seed, tested, own)
                if case.format in calls_again:
                    case = language_of(case.format).called_again(tested, seed, case)
                if not language_of(case.format).brings_passes:
                    case = case.with_passes(passes[seed - first])
                case = _without(case, spared, plan.passes_of) if spared else case
                forms = forms_of(tested) if lesson is not None and plan.legality.operators else ()
                bred: Bred | None = getattr(tested, "bred", None)
                yield DrawnCase(seed, case, covered, arm(turn.strategy, mode), forms, bred)


@dataclass(frozen=True, slots=True)
class _Turn:
    """The settings of one block: its strategy, the size of its programs, and its mode or mixture."""

    strategy: str
    size: int
    mode: Mode


def _turn(plan: Plan, block: range, lesson: CoverageSnapshot) -> _Turn:
    draws = RandomSource(f"block/{block.start}")
    usual = {**_SHARES, plan.dialect: _OWN} if plan.dialect else _SHARES
    strategy = draws.weighted(tuple(usual), tuple(usual.values()))
    size = draws.pick(_SIZES)
    if plan.strategy == MIXED and not plan.dialect and has_solver():
        strategy = SOLVED if RandomSource(f"solved/{block.start}").chance(_OF_SOLVED) else strategy
    if plan.strategy == MIXED and plan.beside:
        strategy = _of_a_language(plan, strategy, lesson, RandomSource(f"language/{block.start}"))
    return _Turn(strategy if plan.strategy == MIXED else plan.strategy, size, plan.mode)


def _of_a_language(plan: Plan, usual: str, lesson: CoverageSnapshot, draws: RandomSource) -> str:
    """The strategy of a block where a target runs several languages; `usual` is what ONNX would get."""
    found = shares_of_languages(plan.beside, lesson)
    strategies = plan.beside.get(draws.weighted(tuple(found), tuple(found.values())), {usual: 1.0})
    return draws.weighted(tuple(strategies), tuple(strategies.values()))


def provide_packages() -> None:
    """Install what a seed's programs depend on: z3 solves some, torch's gradients make inputs finite."""
    provide("z3-solver", "torch")


@cache
def has_solver() -> bool:
    """Whether the solver that the strategy `smt` needs is installed."""
    return find_spec("z3") is not None


def _programs(
    plan: Plan, turn: _Turn, block: Sequence[int], lesson: CoverageSnapshot | None
) -> Iterator[Made]:
    """The programs of one block's seeds; its first ones are made again wherever one starts within it."""
    nodes = plan.nodes or turn.size
    is_guided = turn.strategy not in _UNGUIDED or plan.strategy != MIXED
    taught = find_taught(turn.strategy) if is_guided and lesson is not None and plan.source is None else None
    if taught and lesson is not None:
        return taught(block, nodes, lesson, plan.budget)
    return find_strategy(turn.strategy, plan.trust)(block, nodes, plan.source, plan.budget)


def _allowed(
    plan: Plan, turn: _Turn, seed: int, program: Made | None, refused: frozenset[str], spared: frozenset[str]
) -> tuple[Mode, str, Made]:
    """Make a program as `_in_turn` does, and again while it holds what the target lacks or what is spared."""
    found = _in_turn(plan, turn, seed, program)
    is_mixture = plan.strategy == MIXED
    for again in range(1, _ANEW + 1):
        is_spared = bool(spared) and not spared.isdisjoint(language_of(found[2].format).operators(found[2]))
        if not is_spared and plan.legality.allows(found[2], refused):
            break
        strategy = DEFAULT if is_mixture and again > _ANEW // 2 else turn.strategy
        other, then = seed + again * _APART, replace(turn, strategy=strategy, mode=found[0])
        found = _in_turn(plan, then, other, None)
    return found


def _spared(plan: Plan, worn: frozenset[str], seed: int) -> frozenset[str]:
    """What is worn, for most seeds; never what a user has named."""
    is_spared = worn and plan.source is None and RandomSource(f"worn/{seed}").chance(_SPARED)
    return worn.difference(plan.given) if is_spared else frozenset()


def _is_small(plan: Plan, turn: _Turn, seed: int) -> bool:
    """Whether a seed has a program of few nodes instead of its block's: in a mixture, if it is not valid."""
    format = next((name for name, strategies in plan.beside.items() if turn.strategy in strategies), _USUAL)
    language = language_of(format)
    if plan.strategy != MIXED or not language.comes_small:
        return False
    mode = mode_of(turn.mode, seed, language.modes)
    return mode is not Mode.STRICT and RandomSource(f"size/{seed}").chance(_SMALL)


def _in_turn(plan: Plan, turn: _Turn, seed: int, program: Made | None) -> tuple[Mode, str, Made]:
    """The mode of a seed, its strategy and its program, which is made where it is not given."""
    strategy, nodes = turn.strategy, plan.nodes or turn.size
    if _is_small(plan, turn, seed):
        strategy = strategy if strategy == plan.dialect else "uniform"
        nodes = RandomSource(f"few/{seed}").pick(_FEW)
    if program is None:
        making = find_strategy(strategy, plan.trust)
        (program,) = making(range(seed, seed + 1), nodes, plan.source, plan.budget)
    return mode_of(turn.mode, seed, language_of(program.format).modes), strategy, program


def _without(case: Case, spared: frozenset[str], backend: str) -> Case:
    """The case without these passes, and without others that cannot stand alone."""
    passes = find_backend(backend).sequences if backend else None
    if passes is None or spared.isdisjoint(case.passes):
        return case
    facts, kept = passes.facts_of(case.format, case.program), list[str]()
    for name in case.passes:
        if name not in spared and not passes.misplaced((*kept, name), facts):
            kept.append(name)
    return case.with_passes(tuple(kept))


def _case(mode: Mode, seed: int, program: Made, strategy: str) -> Case:
    language = language_of(program.format)
    case = language.in_mode(mode, seed, program)
    if strategy == "mutate":
        case = language.mutated(program, seed, case)
    return replace(case, notes=(Remark.STRATEGY.note(strategy), *case.notes))


_BATCH = 50


COVERAGE_FILE = "coverage.json"
"""Beside the programs of the coverage strategy: what all of them cover, to start the next run from."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of generated programs: strategy, first file, changes, costs.

    `trust` lets a strategy be a file of code.
    """

    strategy: str = DEFAULT
    source: Path | None = None
    mode: Mode = Mode.STRICT
    budget: Budget = UNLIMITED
    trust: bool = False


@dataclass(frozen=True, slots=True)
class Generated:
    """The result of `generate`: counts over all programs, and the wall seconds."""

    counts: Counts
    seconds: float

    def facts(self) -> dict[str, float]:
        """The counts of the library, as `crux generate --json` shows them."""
        return {**self.counts.facts(), "seconds": round(self.seconds, 3)}


def generate(
    folder: Path,
    number: int,
    nodes: int,
    *,
    seed: int = 0,
    jobs: int = 1,
    options: Options = Options(),
    progress: Callable[[int], None] = lambda done: None,
) -> Generated:
    """Write the programs of `number` seeds, from `seed` on, as `folder/seed-N`.

    What an interrupted call has written is kept and not written again. `progress` hears how many programs
    are done. Raises `UserError` where a folder holds another program.
    """
    provide_packages()
    start = time.perf_counter()
    counts, seen = Counts(), Counter[str]()
    seeds = range(seed, seed + number)
    batches = [seeds[first : first + _BATCH] for first in range(0, number, _BATCH)]
    find_strategy(options.strategy, options.trust)
    for part, more in _in_order(partial(_write_batch, folder, nodes, options), batches, jobs):
        counts |= part
        seen.update(more)
        progress(counts.models)
    if options.strategy == "coverage":
        known = Seen.load(options.source) if options.source else Seen()
        known.counts.update(seen)
        known.save(folder / COVERAGE_FILE)
    return Generated(counts, time.perf_counter() - start)


Batch = tuple[Counts, Counter[str]]


def _in_order(work: Callable[[range], Batch], batches: list[range], jobs: int) -> Iterator[Batch]:
    """The batches as they were written, by several processes in turns; raises what one of them raised."""
    count = min(jobs, len(batches))
    if count <= 1:
        yield from map(work, batches)
        return
    with ExitStack() as stack:
        turns = (batches[at::count] for at in range(count))
        ends = [stack.enter_context(call_apart(_serve, work, each)) for each in turns]
        for at in range(len(batches)):
            try:
                answer: Any = ends[at % count].recv()
            except (EOFError, OSError):
                raise ChildProcessError("a process that writes programs ended") from None
            if isinstance(answer, BaseException):
                raise answer
            yield answer


def _serve(connection: Connection, work: Callable[[range], Batch], batches: list[range]) -> None:
    """Write these batches."""
    for seeds in batches:
        try:
            connection.send(work(seeds))
        except Exception as error:
            connection.send(error)


def _write_batch(folder: Path, nodes: int, options: Options, seeds: range) -> Batch:
    counts, seen = Counts(), Counter[str]()
    strategy = find_strategy(options.strategy, options.trust)
    programs = strategy(seeds, nodes, options.source, options.budget)
    for seed, program in zip(seeds, programs, strict=True):
        language = language_of(program.format)
        mode = mode_of(options.mode, seed, language.modes)
        _write(language.in_mode(mode, seed, program), folder / f"seed-{seed}")
        counts |= program.counts()
        seen.update(language.coverage(program))
    return counts, seen


def _write(case: Case, folder: Path) -> None:
    if not (folder / "case.json").exists():
        case.save(folder)
    elif (folder / find_format(case.format).program_file).read_bytes() != case.program:
        raise UserError(
            f"{folder}: holds another program; name an empty folder, or the seed and size it was for"
        )
