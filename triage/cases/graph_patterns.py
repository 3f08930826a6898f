"""Patterns of passes out of Relax programs: which passes change one, and the fewest bindings for each."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from corpus.case import Case
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from corpus.pattern import GraphPattern
from corpus.values import Shape, Tensor
from generators.relax.programs import make_program
from generators.strategies.relax import policy_of
from oracles.judge import Judge
from oracles.sandbox.sandbox import SandboxError
from reducer.engine.predicates import JudgePool
from reducer.language import learn_graph, open_graph
from reducer.subject.graphs.edits import assemble_bindings
from reducer.subject.graphs.subject import GraphSubject
from triage.cases.patterns import Document

MOST_BINDINGS = 60
SEEDS, CONTEXTS, CONTEXT = 60, 5, 8
"""How many programs are made, how many with a pattern are asked about, and their bindings."""
MOST_PARTS = 24
"""Parts of one program that are asked about for one pass."""


@dataclass
class GraphExtraction:
    """Patterns as they are found, each once; `most` of a pass are enough.

    `any_judge` is one of the target; one of Relax programs is opened when the first of these comes.
    """

    any_judge: Judge
    most: int
    found: dict[str, GraphPattern] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @cached_property
    def judge(self) -> Judge:
        """The judge of Relax programs."""
        return self.any_judge.of_format("relax")

    def keep(self, documents: Iterable[Document], out: Path) -> None:
        """Save the patterns of these documents that are new below a folder."""
        for pattern in self.of(documents):
            pattern.save(out)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The passes that the target runs by name."""
        sequences = self.judge.backend.sequences
        return (*sequences.names, *sequences.asked_about) if sequences is not None else ()

    @cached_property
    def anywhere(self) -> frozenset[str]:
        """The passes that change a program of one plain operator; only such programs are asked about them."""
        return frozenset(self.judge.executor.changed_by(_single_operator(), self.names))

    def wanted(self, told: str, bindings: int) -> list[str]:
        """List the passes to ask about a program of so many bindings, which may be for one pass."""
        names = (name for name in self.names if told in name and not self._has_enough(name))
        return [name for name in names if bindings == 1 or name not in self.anywhere]

    def of(self, documents: Iterable[Document]) -> Iterator[GraphPattern]:
        """Yield the patterns of these documents that are new."""
        for document in documents:
            self.counts["programs"] += 1
            yield from self._of_one(document.case, document.fires)

    def _of_one(self, case: Case, told: str) -> Iterator[GraphPattern]:
        subject = open_graph(case, JudgePool(lambda: self.judge, self.judge))
        if len(subject.bindings) > MOST_BINDINGS:
            self.counts["left out: too large"] += 1
            return
        fired = self._fired(subject.program, self.wanted(told, len(subject.bindings)))
        if not fired:
            return
        learned, broken = learn_graph(subject, self.judge, case)
        if broken:
            self.counts["left out: does not run"] += 1
            return
        for name in fired:
            for graph in self._graphs(learned, name):
                if self._has_enough(name):
                    break
                pattern = self._named(graph, name, case)
                if pattern is None:
                    self.counts["left out: gives what is no tensor of known dims"] += 1
                elif pattern.digest in self.found:
                    self.counts["duplicates"] += 1
                elif not self.holds(pattern):
                    self.counts["left out: does not fire in a context"] += 1
                else:
                    self.found[pattern.digest] = pattern
                    yield pattern

    def _graphs(self, subject: GraphSubject, name: str) -> Iterator[GraphSubject]:
        """The least graph on which a pass fires, then others: connected ones, blocks, the whole function."""
        least = self._least(subject, name)
        yield least
        for bindings in islice(parts_of(subject.program.main.bindings), MOST_PARTS):
            candidate = self._assembled(subject, bindings)
            if candidate is not None and self._fired(candidate.program, [name]):
                yield candidate

    def holds(self, pattern: GraphPattern) -> bool:
        """Whether its pass fires on programs that grew around it, on all but one at most."""
        policy = policy_of({pattern.fires: (pattern,)})
        made = (make_program(seed, CONTEXT, policy) for seed in range(SEEDS))
        placed = [each.program for each in islice((one for one in made if one.fires), CONTEXTS)]
        fired = sum(bool(self._fired(each, [pattern.fires])) for each in placed)
        return fired > 0 and fired >= len(placed) - 1

    def _has_enough(self, name: str) -> bool:
        return sum(pattern.fires == name for pattern in self.found.values()) >= self.most

    def _fired(self, program: GraphProgram, names: Sequence[str]) -> list[str]:
        return self.judge.executor.changed_by(program.to_bytes(), names)

    def _least(self, subject: GraphSubject, name: str) -> GraphSubject:
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
        return best

    def _assembled(self, subject: GraphSubject, bindings: Sequence[Binding]) -> GraphSubject | None:
        return assemble_bindings(subject, bindings) if bindings else None

    def _named(self, subject: GraphSubject, name: str, case: Case) -> GraphPattern | None:
        try:
            told = self.judge.executor.describe(subject.document, subject.inputs)["types"]
        except (KeyError, SandboxError):
            return None
        types: dict[str, tuple[str, Shape]] = {
            each: (dtype, tuple(dims)) for each, (dtype, dims) in told.items() if dtype and dims is not None
        }
        if not types.keys() >= set(subject.program.main.outputs):
            return None  # a function, say: no program could give it, so nothing would read it
        used = _without_unused(subject.program)
        ranges = {
            item.name: spread(value)
            for item in used.main.inputs
            if isinstance(value := subject.inputs.get(item.name), np.ndarray)
        }
        return GraphPattern(self.judge.target.backend, name, case.origin, used, types, ranges)

    def facts(self) -> dict[str, Any]:
        """Count what was seen and found, if there were any such programs."""
        if not self.counts:
            return {}
        return {
            "programs": self.counts["programs"],
            "relax_patterns": len(self.found),
            "relax_passes": len({pattern.fires for pattern in self.found.values()}),
            **{key: number for key, number in sorted(self.counts.items()) if key != "programs"},
        }


def parts_of(bindings: Sequence[Binding]) -> Iterator[tuple[Binding, ...]]:
    """Yield the function itself, its dataflow blocks, and its connected parts, the larger first."""
    yield tuple(bindings)
    blocks = dict.fromkeys(each.kwargs.get("block") for each in bindings)
    for block in blocks if len(blocks) > 1 else ():
        yield tuple(each for each in bindings if each.kwargs.get("block") == block)
    seen = {frozenset(range(len(bindings)))}
    waiting = deque(seen)
    while waiting:
        whole = waiting.popleft()
        for at in sorted(whole):
            fewer = whole - {at}
            if fewer and fewer not in seen and is_connected(bindings, fewer):
                seen.add(fewer)
                waiting.append(fewer)
                yield tuple(bindings[place] for place in sorted(fewer))


def is_connected(bindings: Sequence[Binding], places: Set[int]) -> bool:
    """Whether these bindings hang together, by what they read of one another."""
    by_name = {bindings[place].name: place for place in places}
    links: dict[int, set[int]] = {place: set() for place in places}
    for place in places:
        for name in bindings[place].reads:
            if (other := by_name.get(name)) is not None:
                links[place].add(other)
                links[other].add(place)
    met, waiting = set[int](), [min(places)]
    while waiting:
        place = waiting.pop()
        if place not in met:
            met.add(place)
            waiting += links[place]
    return met == set(places)


def spread(value: Tensor) -> tuple[float, float]:
    """The least and the greatest element; of none, 0."""
    numbers = value.astype(np.float64)
    return (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)


def _single_operator() -> bytes:
    main = Graph((Input("x", "float32", (2, 3)),), (Binding("y", "relax.abs", ({REF: "x"},)),), ("y",))
    return GraphProgram("relax", main, facts={"main": "main"}).to_bytes()


def _without_unused(program: GraphProgram) -> GraphProgram:
    """Remove the constants and functions that nothing names any more."""
    graphs = (program.main, *program.functions.values())
    text = str([(each.args, dict(each.kwargs)) for graph in graphs for each in graph.walk()])
    outputs = {name for graph in graphs for name in graph.outputs}
    constants = {
        name: value for name, value in program.constants.items() if f"'{name}'" in text or name in outputs
    }
    functions = {name: graph for name, graph in program.functions.items() if f"'{name}'" in text}
    opaque = {name: item for name, item in program.opaque.items() if f"'{name}'" in text}
    loops = {name: item for name, item in program.loops.items() if f"'{name}'" in text}
    return replace(program, constants=constants, functions=functions, opaque=opaque, loops=loops)
