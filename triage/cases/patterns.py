"""Patterns out of documents: which passes fire, the least graph on which each does, what it can let go of."""

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from corpus.case import CASE_FILE, Case
from corpus.errors import UserError
from corpus.format import Format, read_whole
from corpus.formats import relax, tir
from corpus.formats.onnx import check, parse
from corpus.graphs.program import GraphProgram
from corpus.load import open_case
from corpus.onnx.graph import inlined, walk_nodes
from corpus.onnx.inputs import make_inputs
from corpus.pattern import Pattern
from corpus.target import Target
from corpus.tir.program import to_bytes
from generators.patterns import is_sound, recipe_of
from generators.strategies.patterns import around
from oracles.judge import Judge
from oracles.probes.record import Firing
from oracles.relation.program import FIRST_OPSET, LAST_OPSET
from oracles.sandbox.sandbox import Sandbox, SandboxError
from oracles.verdict import Limits
from reducer.generalize import Generalized, least_graph, loosen, static
from reducer.pass_sets import PassSet, counted, find_pass_set
from triage.cases.sources import Judges
from triage.console.options import CaseOptions

MODELS, CODE, DATA = ".onnx", ".py", (".relax.json", ".tir.json")
MOST_BYTES = 4 << 20
"""Of a test's source."""

Tell = Callable[[str], None]
Writer = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class Document:
    """A program of a documented test; `fires` is the pass that it is for, empty where that is not told."""

    case: Case
    fires: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """Opens the files of a directory; `skip` hears in one line of each that it is left out, and why.

    `untold` counts what tests made that crux could not write as a program, by the reason.
    """

    target: Target
    limits: Limits
    memory_bytes: int
    trust: bool
    skip: Tell
    untold: Counter[str] = field(default_factory=Counter)

    def documents(self, folder: Path) -> Iterator[tuple[Path, list[Document]]]:
        """Each file with what it holds, by path; raises `UserError` where there is no such directory."""
        if not folder.is_dir():
            raise UserError(f"{folder}: no such directory; name one that holds a compiler's tests")
        for path in sorted(folder.rglob("*")):
            is_known = path.suffix in (MODELS, CODE) or path.name.endswith(DATA)
            if is_known and (path.is_file() or path.is_symlink()):
                yield path, self._of_file(path, path.relative_to(folder))

    def _of_file(self, path: Path, name: Path) -> list[Document]:
        try:
            return self._made_by(path, name) if path.suffix == CODE else [self._model(path, name)]
        except UserError as error:
            self.skip(str(error))
            return []

    def _model(self, path: Path, name: Path) -> Document:
        in_folder = (path.parent / CASE_FILE).is_file()
        case = open_case(path.parent if in_folder else path, memory_bytes=self.memory_bytes)
        return Document(case if in_folder else replace(case, origin=str(name)))

    def _made_by(self, path: Path, name: Path) -> list[Document]:
        if not self.trust:
            raise UserError(f"{path}: its models are made by running it; give --trust if you trust it")
        content = base64.b64encode(read_whole(path, MOST_BYTES, "name a folder of tests")).decode("ascii")
        shown = [str(path.resolve().parent)]
        with Sandbox(self.target.backend, limits=self.limits, shown=shown) as sandbox:
            try:
                answer = sandbox.ask("documented", str(path.resolve()), content)
            except SandboxError:
                seconds = f"{self.limits.wall_seconds:g} seconds"
                raise UserError(
                    f"{path}: running it did not end in {seconds}, or ended its process"
                ) from None
        self.untold.update(answer.get("left_out", {}))
        for note in answer["notes"]:
            self.skip(f"{path}: {' '.join(note.split())[:200]}")
        given = [
            *((relax.FORMAT, GraphProgram.to_bytes, *each) for each in answer.get("graphs", ())),
            *((tir.FORMAT, to_bytes, test, "", program) for test, program in answer.get("loops", ())),
        ]
        return [
            *(document for each in given for document in self._other(name, *each)),
            *(document for each in answer.get("models", ()) for document in self._one(name, *each)),
        ]

    def _other(
        self, name: Path, taken: Format[Any], written: Writer, test: str, fires: str, program: str
    ) -> Iterator[Document]:
        """A program that a test gave to a pass; one that is ill-formed or has no inputs is left out."""
        origin = f"{name}::{test}" if test else str(name)
        try:
            parsed = taken.parse(program.encode(), origin)
            inputs = taken.make_inputs(parsed, 0, {})
            yield Document(Case(taken.name, written(parsed), inputs, origin=origin), fires)
        except UserError as error:
            self.untold.update([str(error).partition(": ")[2][:60]])

    def _one(self, name: Path, test: str, fires: str, program: str) -> Iterator[Document]:
        """A model that a test made; one that is no model is left out without a word: tests make such too."""
        origin = f"{name}::{test}" if test else str(name)
        raw = base64.b64decode(program)
        try:
            model = parse(raw, origin)
            check(model, origin, self.memory_bytes)
            yield Document(Case("onnx", raw, make_inputs(model, 0), origin=origin), fires)
        except UserError:
            return


OPSETS = range(FIRST_OPSET, LAST_OPSET + 1)
MOST_NODES = 150
"""Of a program; a larger one is no small example."""
STANDARD = ("", "ai.onnx")
SEEDS, CONTEXT = 6, 5
"""Programs that are grown around a pattern to see whether it holds, and the nodes of each beside it."""


@dataclass
class Extraction:
    """Patterns as they are found, each once; `most` of a pass are enough, and then no more are looked for."""

    firing: Firing
    judge: Judge
    most: int
    found: dict[str, Pattern] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def keep(self, documents: Iterable[Document], out: Path) -> None:
        """Save the patterns of these documents that are new below a folder."""
        for pattern in self.of(documents):
            pattern.save(out)

    def of(self, documents: Iterable[Document]) -> Iterator[Pattern]:
        """Yield the patterns of these documents that are new."""
        for document in documents:
            self.counts["models"] += 1
            yield from self._of_one(document)

    def _of_one(self, document: Document) -> Iterator[Pattern]:
        case = _static_case(document.case)
        if case is None:
            self.counts["left out: too large, or its values are no tensors"] += 1
            return
        fired = self._fired(case, document.fires)
        self.counts["models on which a pass fires"] += bool(fired)
        for name in fired:
            if self._has_enough(name):
                continue
            pattern = self._pattern(case, name)
            if pattern is None:
                self.counts["left out: fires in no form that programs can hold"] += 1
                continue
            sound = [each for each in (pattern, pattern.settled()) if is_placeable(each)]
            kept = next((each for each in sound if self.holds(each)), None)
            if not sound:
                self.counts["left out: holds what programs are not made of"] += 1
            elif kept is None:
                self.counts["left out: does not fire in a context"] += 1
            elif kept.digest in self.found:
                self.counts["duplicates"] += 1
            else:
                self.found[kept.digest] = kept
                yield kept

    def holds(self, pattern: Pattern) -> bool:
        """Whether its pass fires on programs that grew around it, on all but one at most."""
        recipe = recipe_of(pattern)
        if recipe is None:
            return False
        made = around({recipe.fires: (recipe,)}, range(SEEDS), recipe.nodes + CONTEXT, more=0.0)
        placed = [each for each in made if each.fires]
        programs = [each.model.SerializeToString(deterministic=True) for each in placed]
        fired = sum(self.firing.fires(program, pattern.fires) for program in programs)
        return fired > 0 and fired >= len(programs) - 1

    def _fired(self, case: Case, told: str) -> list[str]:
        """The passes that change the program, less those that change any; only the one that was told."""
        if told:
            is_of_use = told not in self.firing.commonplace and not self._has_enough(told)
            return [told] if is_of_use and self.firing.fires(case.program, told) else []
        return [name for name in self.firing.passes(case.program) if name not in self.firing.commonplace]

    def _has_enough(self, name: str) -> bool:
        return sum(pattern.fires == name for pattern in self.found.values()) >= self.most

    def _pattern(self, case: Case, name: str) -> Pattern | None:
        model = least_graph(case, lambda program: self.firing.fires(program, name), self.judge)
        if model is None:
            return None

        def holds(candidate: onnx.ModelProto) -> bool:
            program = candidate.SerializeToString(deterministic=True)
            return self.firing.fires(program, name) and self._runs(replace(case, program=program))

        loosened = loosen(model, holds, OPSETS)
        return None if loosened is None else self._named(model, loosened, name, case.origin)

    def _runs(self, case: Case) -> bool:
        """Whether it runs un-optimised: not every kernel's condition is one of the checker's."""
        inputs = make_inputs(case.parsed, 0)
        return self.judge.runs(replace(case, inputs=inputs), self.judge.configs[:1])[0].is_ok

    def _named(self, model: onnx.ModelProto, loosened: Generalized, name: str, origin: str) -> Pattern:
        used = {node.domain for node in walk_nodes(loosened.graph)}
        sets = {item.domain: item.version for item in model.opset_import if item.domain in used}
        domains = tuple(sorted((key, version) for key, version in sets.items() if key not in STANDARD))
        backend = self.firing.target.backend
        return Pattern(backend, name, origin, loosened.opsets, loosened.graph, domains, loosened.least)

    def facts(self) -> dict[str, Any]:
        """Count what was seen and found."""
        patterns = self.found.values()
        return {
            "models": self.counts["models"],
            "patterns": len(self.found),
            "passes": len({pattern.fires for pattern in patterns}),
            **{key: number for key, number in sorted(self.counts.items()) if key != "models"},
        }


def is_placeable(pattern: Pattern) -> bool:
    """Whether programs are made of what a pattern holds, and their types come out right."""
    recipe = recipe_of(pattern)
    return recipe is not None and is_sound(recipe)


def _static_case(case: Case) -> Case | None:
    """The case with functions written out and the dims of its inputs said; None where that cannot be had."""
    model: onnx.ModelProto = case.parsed
    if model.functions:
        model = inlined(model)
    if len(model.graph.node) > MOST_NODES:
        return None
    arrays = {name: value for name, value in case.inputs.items() if isinstance(value, np.ndarray)}
    if len(arrays) < len(case.inputs) or case.external:
        return None
    shapes = {name: value.shape for name, value in arrays.items()}
    program = static(model, shapes).SerializeToString(deterministic=True)
    return replace(case, program=program)


def find_passes(word: str, options: CaseOptions) -> dict[str, Any] | None:
    """The JSON document of `crux passes`; None when the case shows no failure."""
    with Judges(options) as judges:
        case, judge = judges.open(word)
        if judge.backend.passes is None:
            raise UserError(f"target {judge.target}: has no passes that can be disabled one by one")
        verdict = judge.verdict(case).must_be_of_a_program(case.origin or case.case_id[:12])
        found = find_pass_set(judge, case, verdict)
    if found is None:
        return None
    return {"case": word, **counted(found, 1).to_json(), "symptom": str(verdict.symptom)}


def advice(found: PassSet | None, disabled_by: str) -> str:
    """One sentence for an issue: what to disable for the failure to go away, or that nothing helps.

    `disabled_by` is how users of the backend disable the pass `{}`.
    """
    if found is None or not (found.minimal or found.beyond_passes):
        return ""
    if found.beyond_passes:
        return "Disabling every pass that can be disabled by name does not make it go away."
    if not found.cures:
        alone = f"It shows with only {_list(found.minimal)} enabled"
        return f"{alone}, but disabling no single pass makes it go away."
    settings = " or ".join(disabled_by.format(name) for name in found.cures)
    text = f"Disabling only {_list(found.cures, 'or')} makes it go away: {settings}."
    others = [name for name in found.minimal if name not in found.cures]
    return f"{text} It takes {_list(others)}, or what does the same, as well." if others else text


def _list(names: tuple[str, ...] | list[str], word: str = "and") -> str:
    *most, last = [f"`{name}`" for name in names]
    return f"{', '.join(most)} {word} {last}" if most else last
