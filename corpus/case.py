"""A case: the program, its inputs, the target and its settings; the only thing that crosses a process."""

from __future__ import annotations

import filecmp
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from corpus.errors import UserError
from corpus.format import Measure
from corpus.formats import find_format, format_names
from corpus.outputs import own
from corpus.reading import SCRATCH, WEIGHTS, ExternalFile, must_stay_within, read_json
from corpus.target import Target
from corpus.values import Value, read_inputs, stored_members, stored_names, write_inputs

__all__ = ["CASE_FILE", "INPUTS_FILE", "Case", "ExternalFile", "Remark"]

CASE_FILE = "case.json"
INPUTS_FILE = "inputs.npz"
DEFAULT_MEMORY = 8 << 30
LOAD, ONLY = "load", "only"
"""The setting of a case that is loaded by every configuration, and run by none."""
PASSES = "passes"
"""The setting that holds a case's sequence of passes, separated by commas."""
EARLIER = "earlier"
"""The setting that holds the sizes of symbolic dims in earlier runs of what is compiled: `N=3,M=2; N=17`."""

_VERSION = 1
_MAX_JSON = 16 << 20
_MOST_ELEMENTS = 1 << 28
"""Of an input in an earlier run, which crux itself may make as well."""


class Remark(StrEnum):
    """The notes of a case that crux reads back; each value is what such a note begins with."""

    STRATEGY = "strategy: "
    PATTERN = "pattern: "
    VIOLATION = "violation: "
    HAZARD = "hazard: "
    CHANGED = "inputs from the seed, changed so that "
    FITTED = "inputs made anew, as the first were refused: "
    UNFIT = "the made inputs do not fit: "
    FREED = "weights, and inputs from the seed, changed so that "

    def note(self, text: str) -> str:
        """Write a note of this kind."""
        return f"{self.value}{text}"


@dataclass(frozen=True, eq=False)
class Case:
    """A program, its inputs and its settings: the thing to test. Immutable.

    A case is saved as a folder (`case.json`, the program, `inputs.npz`, `weights/`). `program` holds the
    exact bytes of the program without its external data. `settings` are those of the case itself (its pass
    sequence, its optimisation level), `origin` the path or seed it came from. Hashes are computed when first
    asked for: making a case costs next to nothing, its values are never changed. Two cases are equal when
    their `case_id`, target and origin are.
    """

    format: str
    program: bytes
    inputs: Mapping[str, Value]
    target: Target | None = None
    external: tuple[ExternalFile, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    origin: str = ""
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def case_id(self) -> str:
        """sha256 over the exact bytes of format, program, weights, inputs and settings; not the target."""
        digest = hashlib.sha256()
        settings = json.dumps(sorted(self.settings))
        external = [f"{file.location}={file.digest}" for file in self.external]
        _update(digest, self.format.encode(), self.program, settings.encode(), json.dumps(external).encode())
        _update_values(digest, self.inputs)
        return digest.hexdigest()

    @cached_property
    def canonical_hash(self) -> str:
        """Hash like `case_id`, without names and documentation. Use it to offer duplicates, never to skip."""
        digest = hashlib.sha256()
        found = find_format(self.format)
        model = self.parsed
        order = list(found.input_types(model, self.origin or self.format))
        places = {name: f"{index}" for index, name in enumerate(order)}
        inputs = {places[name]: self.inputs[name] for name in order if name in self.inputs}
        _update(digest, self.format.encode(), found.canonical(model))
        _update(digest, *(file.digest.encode() for file in self.external))
        _update(digest, json.dumps(sorted(self.settings)).encode())
        _update_values(digest, inputs)
        return digest.hexdigest()

    @property
    def passes(self) -> tuple[str, ...]:
        """The case's own pass sequence, which the backend runs before it builds the program."""
        return tuple(name for name in dict(self.settings).get(PASSES, "").split(",") if name)

    @property
    def loads_only(self) -> bool:
        """Whether the case is about loading: then its inputs are never used, and may be missing."""
        return dict(self.settings).get(LOAD) == ONLY

    def for_loading(self) -> Case:
        """The case of loading the same program."""
        return self._setting(LOAD, ONLY)

    def with_passes(self, names: Sequence[str]) -> Case:
        """The case with this sequence of passes."""
        return self if tuple(names) == self.passes else self._setting(PASSES, ",".join(names))

    @cached_property
    def earlier(self) -> tuple[Mapping[str, int], ...]:
        """The sizes of symbolic dims in each run that what is compiled makes before the one that counts.

        Raises `UserError` for a setting that is none.
        """
        return tuple(map(_sizes, filter(str.strip, dict(self.settings).get(EARLIER, "").split(";"))))

    def with_earlier(self, runs: Sequence[Mapping[str, int]]) -> Case:
        """The case with these earlier runs."""
        if tuple(runs) == self.earlier:
            return self
        texts = [",".join(f"{name}={size}" for name, size in sizes.items()) for sizes in runs]
        return self._setting(EARLIER, "; ".join(texts))

    @cached_property
    def earlier_shapes(self) -> tuple[Mapping[str, tuple[int, ...]], ...]:
        """The shapes, in each earlier run, of the inputs that have a symbolic dim."""
        if not self.earlier:
            return ()
        named = self._named_dims()
        return tuple(
            {
                name: tuple(sizes.get(dim, size) if isinstance(dim, str) else size for dim, size in dims)
                for name, dims in named.items()
            }
            for sizes in self.earlier
        )

    def _named_dims(self) -> Mapping[str, tuple[tuple[int | str | None, int], ...]]:
        """The declared and the given dims of the tensors among its inputs that have a symbolic one."""
        declared = find_format(self.format).input_types(self.parsed, self.origin or self.format)
        shapes = {name: kind.shape for name, kind in declared.items() if kind.shape is not None}
        given = {name: value for name, value in self.inputs.items() if isinstance(value, np.ndarray)}
        return {
            name: tuple(zip(dims, given[name].shape, strict=True))
            for name, dims in shapes.items()
            if name in given and len(dims) == given[name].ndim and any(isinstance(dim, str) for dim in dims)
        }

    def checked(self, where: str) -> Case:
        """The case itself; raises `UserError` if an earlier run names no symbolic dim, or is too large."""
        if self.earlier:
            known = {dim for dims in self._named_dims().values() for dim, _ in dims if isinstance(dim, str)}
            for name in (name for sizes in self.earlier for name in sizes if name not in known):
                has = ", ".join(sorted(known)) or "none"
                raise UserError(f"{where}: {EARLIER}: no input has a symbolic dim {name!r} (there is {has})")
        for shape in (shape for shapes in self.earlier_shapes for shape in shapes.values()):
            if math.prod(shape) > _MOST_ELEMENTS:
                raise UserError(
                    f"{where}: {EARLIER}: an input of {math.prod(shape):,} elements; name smaller sizes"
                )
        return self

    def _setting(self, key: str, text: str) -> Case:
        """The case with a setting of this text; without it where the text is empty."""
        settings = {**dict(self.settings), key: text}
        return replace(self, settings=tuple(sorted(pair for pair in settings.items() if pair[1])))

    @cached_property
    def parsed(self) -> Any:
        """The program as its format reads it, parsed once and shared: copy it before a change.

        Raises `UserError` if the bytes are no program.
        """
        return find_format(self.format).parse(self.program)

    def knowing(self, parsed: Any) -> Case:
        """The case itself, spared from parsing what its caller has just parsed."""
        vars(self)["parsed"] = parsed
        return self

    @cached_property
    def measure(self) -> Measure:
        """Measure the program's size."""
        return find_format(self.format).measure(self.parsed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Case):
            return NotImplemented
        return self is other or self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[str, Target | None, str]:
        return self.case_id, self.target, self.origin

    @cached_property
    def relocated(self) -> Case:
        """The case as it is saved: with its weights below `weights/`, each file named by its content."""
        places = {file.location: f"{WEIGHTS}/{file.digest}" for file in self.external}
        if all(old == new for old, new in places.items()):
            return self
        moved = {places[file.location]: file for file in self.external}
        return replace(
            self,
            program=find_format(self.format).relocate(self.program, places),
            external=tuple(replace(file, location=place) for place, file in moved.items()),
        )

    @property
    def file_names(self) -> tuple[str, ...]:
        """Name what the case's folder may hold."""
        return (CASE_FILE, INPUTS_FILE, find_format(self.format).program_file, WEIGHTS)

    def save(self, folder: Path, *, replacing: bool = False) -> None:
        """Write the folder of the `relocated` case, all of it or nothing; what else lies in one stays.

        Raises `UserError` where a file that crux has not put there would be replaced by another content,
        unless the caller knows that the folder is ours (`replacing`).
        """
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: is a file; name a folder for the case")
        place = folder if folder.is_dir() else folder.parent
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=place) as scratch:
            made = Path(scratch) / "case"
            self.relocated.write_exactly(made)
            _move_into(made, folder, replacing=replacing)

    def write_exactly(self, folder: Path) -> None:
        """Write the case with its weights at their own places, into a new folder that only crux reads."""
        folder.mkdir()
        (folder / find_format(self.format).program_file).write_bytes(self.program)
        write_inputs(folder / INPUTS_FILE, self.inputs)
        for file in self.external:
            place = folder / file.location
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.path, place)
        (folder / CASE_FILE).write_text(self.facts_json(), encoding="utf-8")

    def remarks(self, kind: Remark) -> tuple[str, ...]:
        """List the texts of the notes of one kind, in order."""
        return tuple(note.removeprefix(kind.value) for note in self.notes if note.startswith(kind.value))

    def facts_json(self) -> str:
        """Write `case.json`: the format, the target, the settings and the case's origin."""
        facts = {
            "version": _VERSION,
            "format": self.format,
            "target": None if self.target is None else str(self.target),
            "settings": dict(self.settings),
            "origin": self.origin,
            "notes": list(self.notes),
        }
        return json.dumps(facts, indent=2, sort_keys=True) + "\n"

    @classmethod
    def load(cls, folder: Path, *, memory_bytes: int = DEFAULT_MEMORY) -> Case:
        """Read a folder that `save` wrote; UserError when it is not sound. Weights stay where they are."""
        facts = read_facts(folder)
        where = str(folder)
        found = find_format(facts["format"])
        program = found.read_program(folder / found.program_file, memory_bytes)
        model = found.parse(program, where)
        npz = folder / INPUTS_FILE
        only_loads = facts["settings"].get(LOAD) == ONLY and not stored_names(npz, memory_bytes)
        types = {} if only_loads else found.input_types(model, where)
        return cls(
            format=found.name,
            program=program,
            inputs=read_inputs(npz, types, memory_bytes=memory_bytes),
            target=Target.of_data(facts["target"]) if facts["target"] else None,
            external=found.external_files(model, folder, where),
            settings=tuple(sorted(facts["settings"].items())),
            origin=facts["origin"],
            notes=tuple(facts["notes"]),
        ).checked(where)


def _sizes(text: str) -> Mapping[str, int]:
    """The sizes of dims by their names; raises `UserError` for other text."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = (each.strip() for each in part.rpartition("="))
        if not name or not (size.isascii() and size.isdigit()) or int(size) >= 1 << 31:
            raise UserError(f"{EARLIER} {part[:80]!r}: write sizes of dims, such as batch=2,seq=16; batch=5")
        sizes[name] = int(size)
    return sizes


def read_facts(folder: Path) -> dict[str, Any]:
    """`case.json`, checked and completed; UserError when it is not one."""
    path = folder / CASE_FILE
    given = read_json(path, _MAX_JSON, "save the case again")
    empty: dict[str, Any] = {"format": "onnx", "target": None, "settings": {}, "origin": "", "notes": []}
    facts = empty | given if isinstance(given, dict) else {}
    if not facts or not _is_sound(facts):
        raise UserError(f"{path}: not a case of this version; save the case again")
    return facts


def _is_sound(facts: Mapping[str, Any]) -> bool:
    texts = [facts["target"] or "", facts["origin"]]
    if (
        facts["format"] not in format_names()
        or not isinstance(facts["settings"], dict)
        or not isinstance(facts["notes"], list)
    ):
        return False
    texts += [*facts["settings"].values(), *facts["notes"]]
    return facts.get("version", _VERSION) == _VERSION and all(isinstance(text, str) for text in texts)


def _update(digest: hashlib._Hash, *parts: bytes) -> None:
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)


def _update_values(digest: hashlib._Hash, inputs: Mapping[str, Value]) -> None:
    for name, array in stored_members(inputs):
        _update(digest, name.encode(), f"{array.dtype.str}{array.shape}".encode(), array.tobytes())


def _is_same(one: Path, other: Path) -> bool:
    """Whether both are regular files of the same content."""
    return other.is_file() and not other.is_symlink() and filecmp.cmp(one, other, shallow=False)


def _move_into(made: Path, folder: Path, *, replacing: bool) -> None:
    """Put the finished files in place; `case.json`, which makes the folder a case, comes last."""
    if not folder.exists():
        os.rename(made, folder)
        return
    files = [path.relative_to(made) for path in made.rglob("*") if path.is_file()]
    if not replacing:
        own(folder, {file.parts[0] for file in files if not _is_same(made / file, folder / file)})
    for file in sorted(files, key=lambda file: (file.name == CASE_FILE, file)):
        must_stay_within(folder, folder / file)
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(made / file, folder / file)
