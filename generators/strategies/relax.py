"""Relax programs, which only `tvm` runs: by type, around patterns of passes, and changed.

`relax` grows by type, with functions, branches, closures and symbolic dims. `relax_patterns` grows around
patterns of passes in TVM's own IR, functions, tuples and `call_tir` included; `--from` names a folder of
patterns (`crux patterns extract --target tvm`), and without it they are those shipped. `relax_high_order`
puts further patterns into programs that ran and on which passes fired together for the first time: a campaign
keeps those. `relax_mutate` changes the program that `--from` names, or programs grown by type.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import open_case
from corpus.pattern import GRAPHS, GraphPattern, load_graph_patterns
from generators.feedback import CoverageSnapshot
from generators.language.emit import language_of
from generators.language.profile import Budget
from generators.language.values import RandomSource
from generators.patterns import bred_of, further_nodes, seeds_of
from generators.relax.instances import instantiated
from generators.relax.mutations import mutated
from generators.relax.programs import FORMS, Policy, RelaxProgram, make_program
from generators.strategies import each_seed, untaught

_PLAIN = ("operator", "variable", "alias", "pair", "cast", "helper", "branch", "primfunc")


def around(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[RelaxProgram]:
    """A program a seed, with a pattern wherever one has room, in dataflow blocks: most passes look there."""
    policy = policy_of(_patterns_of(source or GRAPHS))
    for seed in seeds:
        yield make_program(seed, nodes, policy, budget)


def policy_of(patterns: Mapping[str, Sequence[GraphPattern]]) -> Policy:
    """The policy for programs around patterns, which are given by their passes."""
    return Policy(
        name="patterns",
        forms={name: FORMS[name] for name in _PLAIN},
        patterns=patterns,
        blocks=0.95,
        symbolic=0.0,
    )


@cache
def _patterns_of(folder: Path) -> Mapping[str, Sequence[GraphPattern]]:
    """The patterns of a folder by their passes; raises `UserError` if there is none."""
    found: dict[str, list[GraphPattern]] = {}
    for pattern in load_graph_patterns(folder):
        found.setdefault(pattern.fires, []).append(pattern)
    if not found:
        raise UserError(
            f"{folder}: holds no patterns of Relax; crux patterns extract --target tvm writes them"
        )
    return found


def high_order(
    seeds: Sequence[int], nodes: int, lesson: CoverageSnapshot, budget: Budget
) -> Iterator[RelaxProgram]:
    """Yield a program a seed, in a context that the campaign knows, of the first order without one."""
    policy = policy_of(_patterns_of(GRAPHS))
    for seed in seeds:
        bred = bred_of(seed, lesson.pool, "relax_high_order")
        first, *then = seeds_of(bred)
        made = make_program(first, nodes, policy, budget, then, further_nodes(nodes))
        yield replace(made, bred=bred)


def mutants(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[RelaxProgram]:
    """One to four changes to each seed's program."""
    given = open_case(source) if source else None
    for seed in seeds:
        if given is not None:
            yield mutant_of(given, seed, nodes, budget)
            continue
        made = make_program(seed, nodes, budget=budget)
        mutant = mutated(made.program, made.inputs, made.types, _draws(seed, nodes), budget)
        yield _in_sizes(mutant, seed, nodes, budget)


def mutant_of(case: Case, seed: int, nodes: int, budget: Budget) -> RelaxProgram:
    """The mutant of a user's case; UserError for one that is no Relax program of tensors."""
    inputs = {name: value for name, value in case.inputs.items() if isinstance(value, np.ndarray)}
    if language_of(case.format).mutant is not mutant_of or len(inputs) < len(case.inputs):
        raise UserError(f"{case.origin}: to mutate, name an ONNX model or a Relax program of tensors")
    return mutated(case.parsed, inputs, {}, _draws(seed, nodes), budget)


def by_type(seed: int, nodes: int, budget: Budget) -> RelaxProgram:
    """The program of a seed, now and then run with several sizes of its symbolic dims."""
    return _in_sizes(make_program(seed, nodes, budget=budget), seed, nodes, budget)


def _in_sizes(made: RelaxProgram, seed: int, nodes: int, budget: Budget) -> RelaxProgram:
    draws = RandomSource(f"relax/sizes/{seed}/{nodes}")
    return made if budget.is_limited else instantiated(made, draws)


def _draws(seed: int, nodes: int) -> RandomSource:
    return RandomSource(f"relax_mutate/{seed}/{nodes}")


STRATEGIES = {
    "relax": each_seed(by_type),
    "relax_high_order": untaught(high_order),
    "relax_mutate": mutants,
    "relax_patterns": around,
}
TAUGHT = {"relax_high_order": high_order}
