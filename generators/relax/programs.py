"""Whole programs of a policy: one a seed, with values for main's inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from corpus.case import Case, Remark
from corpus.graphs.loops import parted
from corpus.graphs.program import GraphProgram, graph_of_json
from corpus.values import Tensor as Array
from generators.language.budget import UNLIMITED, Budget
from generators.language.counts import Counts
from generators.language.random_source import RandomSource
from generators.pools import Bred
from generators.relax.choices import FORMS, Choices
from generators.relax.costs import names_of
from generators.relax.finishing import count_program, in_blocks
from generators.relax.forms import forms
from generators.relax.frame import Frame, graph_json
from generators.relax.growing import Growth
from generators.relax.leaves import new_input
from generators.relax.operator import ANY
from generators.relax.patterns import place_pattern
from generators.relax.types import Tensor, Type

_MOST_FUEL = 10
_ATTEMPTS = 40
_MOST_SIZE = 4
"""Of a symbolic dim."""
_PATTERN = 0.6
"""How often it is a pattern's turn, where a policy has any."""
_MOSTLY = 0.85
"""How often it is, where patterns are put into a program that holds some."""


USUAL = Choices()


@dataclass(frozen=True)
class RelaxProgram:
    """A program as data, and the values of its inputs."""

    program: GraphProgram
    inputs: Mapping[str, Array]
    types: Mapping[str, Type]
    fires: tuple[str, ...] = ()
    """The passes whose patterns it holds."""
    bred: Bred | None = None
    """What it was bred on, where a campaign keeps a pool."""

    format: ClassVar[str] = "relax"

    def as_case(self, seed: int) -> Case:
        """The case that a campaign judges."""
        notes = tuple(map(Remark.PATTERN.note, self.fires))
        return Case(
            self.format, self.program.to_bytes(), dict(self.inputs), origin=f"seed:{seed}", notes=notes
        )

    def counts(self) -> Counts:
        """Count the program's operators, with calls of functions."""
        return count_program(self.program, self.types)


def make_program(
    seed: int,
    nodes: int,
    policy: Choices = USUAL,
    budget: Budget = UNLIMITED,
    then: Sequence[int] = (),
    further: int = 0,
) -> RelaxProgram:
    """Make the program of a seed under a policy, of about `nodes` bindings, within a budget.

    Each seed of `then` puts patterns into it, by about `further` bindings.
    """
    growth = Growth(RandomSource(f"relax/{policy.name}/{seed}/{nodes}"), policy, nodes, budget, forms())
    _bind_symbols(growth)
    outputs: dict[str, None] = {}
    fires: list[str] = []
    _go_on(growth, outputs, fires, _PATTERN)
    for each in then:
        growth.draws, growth.left = RandomSource(f"relax/{policy.name}/on/{each}"), further
        _go_on(growth, outputs, fires, _MOSTLY)
    return RelaxProgram(
        _document(growth, _results(growth, outputs)),
        dict(growth.feeds),
        growth.types,
        tuple(dict.fromkeys(fires)),
    )


def _go_on(growth: Growth, outputs: dict[str, None], fires: list[str], share: float) -> None:
    """Grow until no binding is left; a pattern comes as often as `share` says, where a policy has any."""
    for _ in range(_ATTEMPTS):
        if growth.left <= 0 and (outputs or fires):
            return
        if growth.policy.patterns and growth.draws.chance(share):
            with growth.attempt(growth.main) as is_lost:
                fires.append(place_pattern(growth))
                is_lost.clear()
            continue
        with growth.attempt(growth.main) as is_lost:
            fuel = growth.draws.between(1, max(1, min(growth.left, _MOST_FUEL)))
            target = growth.policy.result(growth.asking(growth.main))
            outputs[growth.grow(growth.main, target, ANY, fuel).name] = None
            is_lost.clear()


def _bind_symbols(growth: Growth) -> None:
    """An input whose dims are the program's symbols, where it has any."""
    draws, policy, main = growth.draws, growth.policy, growth.main
    if not policy.symbols or not draws.chance(policy.symbolic):
        return
    names = policy.symbols[: draws.between(1, len(policy.symbols))]
    main.symbols += names
    most = growth.budget.dim or _MOST_SIZE
    main.sizes.update((name, min(draws.between(2, _MOST_SIZE), most)) for name in names)
    main.inputs.append(["", "", list(names)])  # so that these symbols count as bound
    dims = [dim for dim in policy.dims if growth.budget.fits((dim,))] or [1]
    told = Tensor(growth.floats[0], (*names, *draws.sample(dims, draws.below(2))))
    main.inputs.pop()
    with growth.attempt(main) as is_lost:
        new_input(growth, main, told, ANY)
        is_lost.clear()
    if is_lost:  # the budget has no room for it
        main.symbols.clear()
        main.sizes.clear()


def _results(growth: Growth, outputs: Mapping[str, None]) -> list[str]:
    """Choose the results: the target, and often values that nothing reads. A program returns at least one
    binding.
    """
    made = {item[0] for item in growth.main.bindings}
    grown_for = dict.fromkeys([*outputs, *growth.results])
    found = [name for name in grown_for if name in made or name in growth.feeds]
    read = {ref for item in growth.main.bindings for ref in names_of(item[2])}
    for each in growth.main.known:
        is_loose = each.name in made and each.name not in read and isinstance(each.type, Tensor)
        if is_loose and each.name not in found and growth.draws.chance(0.6):
            found.append(each.name)
    if not any(name in made for name in found):
        growth.budget = UNLIMITED  # a program has one result whatever it costs
        name = growth.fresh()
        source = found[0] if found else new_input(growth, growth.main, Tensor("float32", (2,)), ANY).name
        growth.main.bindings.append([name, "alias", [{"ref": source}], {}])
        found = [name]
    return [name for name in found if name in made] or found


def _document(growth: Growth, outputs: list[str]) -> GraphProgram:
    blocks = in_blocks(growth.draws, growth.policy.blocks)
    functions = {name: graph_of_json(blocks(graph)) for name, graph in growth.functions.items()}
    main: Frame = growth.main
    opaque, loops = parted(growth.opaque)
    return GraphProgram(
        "relax",
        graph_of_json(blocks(graph_json(main, outputs, {"pure": True}))),
        dict(growth.constants),
        functions,
        opaque,
        {"main": "main"},
        loops,
    )


__all__ = ["FORMS", "POLICY", "Policy", "Strategy"]

Strategy = Callable[[Sequence[int], int, Path | None, Budget], Iterator[object]]


@dataclass(frozen=True)
class Policy(Choices):
    """A policy of drawing programs; a strategy file makes one and calls its `programs()`."""

    def programs(self) -> Strategy:
        """The strategy of this policy, as `--strategy FILE.py:NAME` takes one."""

        def made(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[object]:
            return (make_program(seed, nodes, self, budget) for seed in seeds)

        return made


POLICY = Policy()
