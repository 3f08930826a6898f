"""Forward, leaning to what has been seen least: HirFuzz's coverage-guided generation (§3.1).

A step counts when it adds a piece of coverage (an operator with a new element type, a new shape of its result
or a new predecessor) and is taken back otherwise, as in the paper's Algorithm 1. Beyond the paper, operators,
operands and sizes are drawn where pieces are missing, instead of waiting for chance to meet one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from corpus.outputs import put
from corpus.reading import held_to, read_json
from generators.feedback import CoverageSnapshot
from generators.growth.grow import Program, begin, finish, grow_to, leaning_choice, step
from generators.growth.steps import Bodies, operators_for
from generators.language.profile import UNLIMITED, Budget, Profile, draw_profile, qualified_name
from generators.language.scope import Mark, Scope
from generators.language.values import RandomSource
from oracles.relation.operator import Operator
from oracles.relation.program import ONNX_REALMS, DTypeFamily, Operand, dtype_family_of
from oracles.relation.types import ANYTHING, NARROW, TEXT, DType, Range, Shape, TensorType

_PROBES = 10
"""Operators that are looked at for one step."""
_ASKED = (2, 2, 1, 1)
"""How many new pieces a node must add to be kept, try by try; then any is."""
_PASSED_OVER = 8
"""Operands that a campaign passes over for each node, as the operator in mind has met their shape before."""
_IDLE = 400
"""Steps without a node before a program is left as it is: the budget allows no more."""
_SIZES = (*range(1, 41), 43, 47, 48, 49, 53, 59, 61, 63, 64, 65, 67, 71, 96, 97, 127, 128, 129)
_REALMS: tuple[tuple[DTypeFamily, ...], ...] = (
    (),
    (),
    (DTypeFamily.CONTRIB,),
    (DTypeFamily.CONTRIB,),
    (DTypeFamily.CONTROL,),
    (DTypeFamily.CONTAINER,),
    (DTypeFamily.TEXT,),
    (DTypeFamily.NARROW,),
    (DTypeFamily.ML, DTypeFamily.TEXT),
    tuple(ONNX_REALMS),
)


class Seen:
    """Counts of each operator and each piece of coverage: `counts` of this run, `before`, which stays."""

    def __init__(self, before: Mapping[str, int] | None = None) -> None:
        self.before: Mapping[str, int] = before or {}
        self.counts: Counter[str] = Counter()

    def times(self, key: str) -> int:
        """How often an operator or a piece came up."""
        return self.counts[key] + self.before.get(key, 0)

    def total(self) -> Counter[str]:
        """All counts."""
        return Counter(self.before) + self.counts

    @property
    def pieces(self) -> int:
        """HirFuzz's diversity score (§5.5): every piece of coverage is worth one."""
        return sum(1 for key in self.total() if ":" in key or ">" in key)

    def rarest(self, draws: RandomSource, found: Sequence[Operator], before: str) -> Operator:
        """Choose the operator that is new after its predecessor and was seen least."""
        some = [draws.pick(found) for _ in range(_PROBES)]
        return min(some, key=lambda one: (self.times(f"{before}>{one.name}"), self.times(one.name)))

    def has_met(self, operator: Operator, before: str, focus: Operand) -> bool:
        """Whether a campaign has met the operator on such an operand: most results have its shape."""
        shape, edge = f"{operator.name}:{focus.shape}", f"{before}>{operator.name}"
        return bool(self.before and self.times(shape) and (not before or self.times(edge)))

    def add(self, program: Program) -> None:
        """Count what a finished program holds."""
        producer: dict[str, str] = {}
        for node in program.model.graph.node:
            if node.op_type != "Constant":
                name = qualified_name(node)
                results = [program.types[result] for result in node.output if result in program.types]
                before = [producer.get(operand, "") for operand in node.input if operand in program.types]
                self.counts[name] += 1
                self.counts.update(pieces(name, results, before))
                producer.update(dict.fromkeys(node.output, name))

    @classmethod
    def load(cls, path: Path) -> Seen:
        """Load what `save` wrote; raises `UserError`."""
        advice = "name coverage that was saved"
        return cls(held_to(read_json(path, advice=advice), {"": int}, str(path), advice))

    def save(self, path: Path) -> None:
        """Write the counts to a file, as `--from` reads them."""
        put(path, json.dumps(dict(sorted(self.total().items())), indent=0) + "\n")


def pieces(name: str, results: Sequence[TensorType], before: Sequence[str]) -> list[str]:
    """List the pieces that one use covers: element type, result's shape, and each predecessor."""
    found = [f"{one}>{name}" for one in before if one]
    if results:
        dtype, shape = results[0]
        found += [f"{name}:{int(dtype)}", f"{name}:{shape}"]
    return found


class GuidedScope(Scope):
    """A scope that reuses results rather than inputs and constants, so that operators meet one another."""

    def __init__(self, draws: RandomSource, profile: Profile) -> None:
        super().__init__(draws, profile, Bodies())
        self.producer: dict[str, str] = {}

    def reuse(self, dtype: DType, fits: Callable[[Shape], bool], within: Range = ANYTHING) -> Operand | None:
        """A value that is there and fits, results before inputs and constants."""
        found = self.fitting(dtype, fits, within)
        results = [value for value in found if value.producer is not None]
        return self.draws.pick(results or found) if found else None

    def gained(self, first: int, mark: Mark) -> list[str]:
        """The pieces that the nodes from one on cover."""
        results = {value.name: value.type for value in self.pool[mark.counts[0] :]}
        found: list[str] = []
        for node in self.nodes[first:]:
            before = [self.producer.get(operand, "") for operand in node.operands]
            found += pieces(node.op, [results[name] for name in node.results if name in results], before)
            self.producer.update(dict.fromkeys(node.results, node.op))
        return found


def programs(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[Program]:
    """Each program leans by what the batch has seen before it, and by what was saved in `source`."""
    seen = Seen.load(source) if source else Seen()
    for seed in seeds:
        yield guided(seed, nodes, seen, budget)


def taught(seeds: Sequence[int], nodes: int, lesson: CoverageSnapshot, budget: Budget) -> Iterator[Program]:
    """Each program leans by what the campaign has learned, and by what the batch has seen before it."""
    seen = Seen(lesson.covered)
    for seed in seeds:
        yield guided(seed, nodes, seen, budget)


def guided(seed: int, nodes: int, seen: Seen, budget: Budget = UNLIMITED) -> Program:
    """One program; what it covers is counted while it grows."""
    draws = RandomSource(f"coverage/{seed}/{nodes}")
    scope = GuidedScope(draws, _temper(draws, budget))
    begin(scope)
    _grow(scope, seen, nodes)
    if not scope.nodes:  # every step was taken back
        grow_to(scope, leaning_choice(draws), 1)
    return finish(scope)


def _temper(draws: RandomSource, budget: Budget) -> Profile:
    """Sizes from far and wide, much reuse, and one realm at a time or all of them."""
    realms = frozenset(draws.pick(_REALMS))
    profile = draw_profile(draws, budget)
    drawn = [draws.pick(_SIZES) for _ in range(6)]
    dims = tuple(dim for dim in drawn if budget.fits((dim,)))
    rare = [dtype for dtype in (TEXT, *NARROW) if dtype_family_of(dtype) in realms]
    first, *_, last = profile.dtypes
    dtypes = (first, draws.pick(rare), draws.pick(rare), last) if rare else profile.dtypes
    if not dims or not draws.chance(0.85):
        dims = profile.dims
    return replace(profile, realms=realms, dims=dims, dtypes=dtypes, reuse=0.85, inputs=0.2)


def _grow(scope: GuidedScope, seen: Seen, nodes: int) -> None:
    """Steps that add too little are taken back; less is asked with every one."""

    def choose(scope: Scope, focus: Operand) -> Operator | None:
        known = operators_for(focus.dtype, focus.rank, scope.opset, scope.profile.realms)
        found = [operator for operators in known.values() for operator in operators]
        if not found:
            return None
        before = producer.get(focus.name, "")
        chosen = seen.rarest(scope.draws, found, before)
        if len(passed_over) < _PASSED_OVER and seen.has_met(chosen, before, focus):
            passed_over.append(focus)
            return None
        return chosen

    producer, tries, idle = scope.producer, 0, 0
    passed_over: list[Operand] = []
    while len(scope.nodes) < nodes and idle < _IDLE:
        mark, count = scope.mark(), len(scope.nodes)
        step(scope, choose, nodes - count)
        idle = idle + 1 if len(scope.nodes) == count else 0
        gained = scope.gained(count, mark)
        fresh = sum(not seen.times(piece) for piece in gained)
        if tries < len(_ASKED) and fresh < _ASKED[tries] * (len(scope.nodes) - count or 1):
            scope.restore(mark)
            tries += 1
            continue
        tries = 0
        passed_over.clear()
        seen.counts.update(gained)
        seen.counts.update(node.op for node in scope.nodes[count:])


STRATEGIES = {"coverage": programs}
TAUGHT = {"coverage": taught}
