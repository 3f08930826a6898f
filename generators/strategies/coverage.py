"""Forward, leaning to what has been seen least: HirFuzz's coverage-guided generation (§3.1).

An operator's weight falls with how often it was used, and rises where its element type, its shape or its
predecessor would be new for it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from corpus.errors import UserError
from generators.affinity import operators_for
from generators.counts import qualified_name
from generators.draws import Draws
from generators.grow import Program, begin, finish, grow_to
from generators.scope import Scope, draw_temper
from generators.spec import Operand, Operator, Realm
from generators.types import TensorType

_NEW_DTYPE, _NEW_SHAPE, _NEW_EDGE = 6.0, 2.0, 4.0
_REALM_RATE = 0.4
_CANDIDATES = 24
"""Operators that are looked at for one step."""


class Seen:
    """How often each operator came up, alone and with its type, its shape and its predecessor."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts: Counter[str] = Counter(counts or {})

    def choose(self, scope: Scope, focus: Operand) -> Operator | None:
        """One of some operators that take the focus, mostly one that adds something."""
        known = operators_for(focus.dtype, focus.rank, scope.opset, scope.temper.realms)
        found = [operator for operators in known.values() for operator in operators]
        if not found:
            return None
        before = next((node.op for node in reversed(scope.nodes) if focus.name in node.results), "")
        some = [scope.draws.pick(found) for _ in range(_CANDIDATES)]
        return scope.draws.weighted(some, [self._weight(one.name, focus, before) for one in some])

    def _weight(self, name: str, focus: Operand, before: str) -> float:
        counts = self.counts
        weight = 1.0 / (1 + counts[name])
        keys = coverage_keys(name, focus.type, before)
        for key, gain in zip(keys, (_NEW_DTYPE, _NEW_SHAPE, _NEW_EDGE), strict=True):
            weight *= 1.0 if counts[key] else gain
        return weight

    def add(self, program: Program) -> None:
        """Count what a finished program holds."""
        producer: dict[str, str] = {}
        for node in program.model.graph.node:
            if node.op_type == "Constant":
                continue
            name = qualified_name(node)
            self.counts[name] += 1
            for operand in node.input:
                if operand in program.types:
                    before = producer.get(operand, "")
                    self.counts.update(coverage_keys(name, program.types[operand], before))
            producer.update(dict.fromkeys(node.output, name))

    @classmethod
    def load(cls, path: Path) -> Seen:
        """What `save` wrote; raises `UserError`."""
        try:
            return cls(json.loads(path.read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"{path}: no coverage can be read ({error}); name one that was saved") from error

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dict(sorted(self.counts.items())), indent=0) + "\n")


def coverage_keys(name: str, operand: TensorType, before: str) -> tuple[str, str, str]:
    """What one use covers: the operator's type, its shape, its predecessor."""
    return f"{name}:{int(operand.dtype)}", f"{name}:{operand.shape}", f"{before}>{name}"


def programs(seeds: Sequence[int], nodes: int, source: Path | None) -> Iterator[Program]:
    """Each program leans by what the batch has seen before it, and by what was saved in `source`."""
    seen = Seen.load(source) if source else Seen()
    for seed in seeds:
        yield guided(seed, nodes, seen)


def guided(seed: int, nodes: int, seen: Seen) -> Program:
    """One program, which is then counted."""
    draws = Draws(f"coverage/{seed}/{nodes}")
    realms = frozenset(realm for realm in Realm if draws.chance(_REALM_RATE))
    scope = Scope(draws, replace(draw_temper(draws), realms=realms))
    begin(scope)
    grow_to(scope, seen.choose, nodes)
    program = finish(scope)
    seen.add(program)
    return program
