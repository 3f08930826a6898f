"""Relax programs around patterns of passes, in TVM's own IR: functions, tuples and `call_tir` included.

`--from` names a folder of patterns (`crux patterns extract --target tvm`); without it they are those shipped.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from corpus.errors import UserError
from corpus.graphs.pattern import FOLDER, GraphPattern, load_graph_patterns
from generators.language.profile import UNLIMITED, Budget
from generators.relax.programs import FORMS, Policy, RelaxProgram, make_program

_PLAIN = ("operator", "variable", "alias", "pair", "cast", "helper", "branch", "primfunc")


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[RelaxProgram]:
    """A program a seed, with a pattern wherever one has room, in dataflow blocks: most passes look there."""
    policy = policy_of(patterns_of(source or FOLDER))
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
def patterns_of(folder: Path) -> Mapping[str, Sequence[GraphPattern]]:
    """The patterns of a folder by their passes; raises `UserError` if there is none."""
    found: dict[str, list[GraphPattern]] = {}
    for pattern in load_graph_patterns(folder):
        found.setdefault(pattern.fires, []).append(pattern)
    if not found:
        raise UserError(
            f"{folder}: holds no patterns of Relax; crux patterns extract --target tvm writes them"
        )
    return found
