"""The programs in a directory of a compiler's documented tests: models in files, and what test code makes."""

import base64
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from corpus.case import CASE_FILE, Case
from corpus.errors import UserError
from corpus.format import read_whole
from corpus.formats import relax, tir
from corpus.formats.onnx import check, parse
from corpus.load import open_case
from corpus.onnx.inputs import make_inputs
from corpus.target import Target
from corpus.tir.document import to_bytes
from oracles.sandbox.sandbox import Sandbox, SandboxError
from oracles.verdict import Limits

MODELS, CODE, DATA = ".onnx", ".py", (".relax.json", ".tir.json")
MOST_BYTES = 4 << 20
"""Of a test's source."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Document:
    """A program of a documented test; `fires` is the pass that it is for, empty where that is not told."""

    case: Case
    fires: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """Opens the files of a directory; `skip` hears in one line of each that it is left out, and why.

    `untold` counts what tests made that is no ONNX model and could not be written as one, by the reason.
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
        graphs = [document for each in answer.get("graphs", ()) for document in self._graph(name, *each)]
        loops = [document for each in answer.get("loops", ()) for document in self._loops(name, *each)]
        return [
            *graphs,
            *loops,
            *(document for each in answer["models"] for document in self._one(name, *each)),
        ]

    def _graph(self, name: Path, test: str, fires: str, program: str) -> Iterator[Document]:
        """A Relax module that a test gave to a pass; one that crux cannot make inputs for is left out."""
        origin = f"{name}::{test}" if test else str(name)
        try:
            parsed = relax.FORMAT.parse(program.encode(), origin)
            inputs = relax.FORMAT.make_inputs(parsed, 0, {})
            yield Document(Case("relax", parsed.to_bytes(), inputs, origin=origin), fires)
        except UserError as error:
            self.untold.update([str(error).partition(": ")[2][:60]])

    def _loops(self, name: Path, test: str, program: str) -> Iterator[Document]:
        """A PrimFunc that a test gave to a pass; one that is ill-formed, or has no inputs, is left out."""
        origin = f"{name}::{test}" if test else str(name)
        try:
            parsed = tir.FORMAT.parse(program.encode(), origin)
            inputs = tir.FORMAT.make_inputs(parsed, 0, {})
            yield Document(Case("tir", to_bytes(parsed), inputs, origin=origin))
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
