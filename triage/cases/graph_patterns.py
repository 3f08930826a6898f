"""Patterns of Relax passes out of Relax programs: which passes change one, and the fewest bindings for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from corpus.case import Case
from corpus.graphs.pattern import GraphPattern
from corpus.graphs.program import Binding, GraphProgram
from corpus.values import Shape
from oracles.backends import Sequenced, find_backend
from oracles.judge import Judge
from oracles.sandbox.sandbox import SandboxError
from reducer.engine.predicates import JudgePool
from reducer.subject.graph import GraphSubject
from reducer.subject.graph_edits import assemble_bindings
from reducer.subjects import learn_facts, open_subject

MOST_BINDINGS = 60
COMMON = 0.5
"""A pass that changes so many of the programs of one operator is about none of them."""


@dataclass
class GraphExtraction:
    """Patterns as they are found, each once; `most` of a pass are enough."""

    judge: Judge
    most: int
    found: dict[str, GraphPattern] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @cached_property
    def passes(self) -> tuple[str, ...]:
        """The passes that the target runs by name."""
        backend = find_backend(self.judge.target.backend)
        return tuple(backend.SEQUENCEABLE) if isinstance(backend, Sequenced) else ()

    def of(self, cases: Iterable[Case]) -> Iterator[GraphPattern]:
        """The patterns of these programs that are new."""
        for case in cases:
            self.counts["programs"] += 1
            yield from self._of_one(case)

    def _of_one(self, case: Case) -> Iterator[GraphPattern]:
        subject = open_subject(case, JudgePool(lambda: self.judge, self.judge))
        if not isinstance(subject, GraphSubject) or len(subject.bindings) > MOST_BINDINGS:
            self.counts["left out: too large"] += 1
            return
        wanted = [name for name in self.passes if not self._has_enough(name)]
        fired = self._fired(subject.program, wanted)
        if not fired:
            return
        subject, broken = learn_facts(subject, self.judge, case)  # type: ignore[assignment]
        if broken:
            self.counts["left out: does not run"] += 1
            return
        for name in fired:
            pattern = self._least(subject, name, case)
            if pattern is None:
                self.counts["left out: its dims are not known"] += 1
            elif pattern.digest in self.found:
                self.counts["duplicates"] += 1
            else:
                self.found[pattern.digest] = pattern
                yield pattern

    def _has_enough(self, name: str) -> bool:
        return sum(pattern.fires == name for pattern in self.found.values()) >= self.most

    def _fired(self, program: GraphProgram, names: Sequence[str]) -> list[str]:
        return self.judge.changed_by(program.to_bytes(), names)

    def _least(self, subject: GraphSubject, name: str, case: Case) -> GraphPattern | None:
        """The fewest bindings on which the pass fires: halves go first, then each by itself."""
        kept = list(subject.program.main.bindings)
        best = subject
        size = max(1, len(kept) // 2)
        while size:
            at = 0
            while at < len(kept):
                fewer = [*kept[:at], *kept[at + size :]]
                candidate = self._assembled(subject, fewer)
                if candidate is not None and self._fired(candidate.program, [name]):
                    kept, best = fewer, candidate
                else:
                    at += size
            size //= 2
        return self._named(best, name, case)

    def _assembled(self, subject: GraphSubject, bindings: Sequence[Binding]) -> GraphSubject | None:
        return assemble_bindings(subject, bindings) if bindings else None

    def _named(self, subject: GraphSubject, name: str, case: Case) -> GraphPattern | None:
        try:
            told = self.judge.describe(subject.document, subject.inputs)["types"]
        except (KeyError, SandboxError):
            return None
        types: dict[str, tuple[str, Shape]] = {
            each: (dtype, tuple(dims)) for each, (dtype, dims) in told.items() if dtype and dims is not None
        }
        used = _without_unused(subject.program)
        return GraphPattern(self.judge.target.backend, name, case.origin, used, types)

    def facts(self) -> dict[str, Any]:
        """What was seen and found, in numbers."""
        return {
            "programs": self.counts["programs"],
            "relax_patterns": len(self.found),
            "relax_passes": len({pattern.fires for pattern in self.found.values()}),
            **{key: number for key, number in sorted(self.counts.items()) if key != "programs"},
        }


def _without_unused(program: GraphProgram) -> GraphProgram:
    """The program without constants and functions that nobody names any more."""
    graphs = (program.main, *program.functions.values())
    text = str([(each.args, dict(each.kwargs)) for graph in graphs for each in graph.walk()])
    outputs = {name for graph in graphs for name in graph.outputs}
    constants = {
        name: value for name, value in program.constants.items() if f"'{name}'" in text or name in outputs
    }
    functions = {name: graph for name, graph in program.functions.items() if f"'{name}'" in text}
    opaque = {name: item for name, item in program.opaque.items() if f"'{name}'" in text}
    return replace(program, constants=constants, functions=functions, opaque=opaque)
