"""Opening what a user names as a case: a program's file or a case folder, hostile until shown otherwise."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from corpus.case import CASE_FILE, DEFAULT_MEMORY, INPUTS_FILE, LOAD, ONLY, Case, read_facts
from corpus.errors import UserError
from corpus.format import Format
from corpus.formats import find_format, format_names, format_of
from corpus.reading import Fields, Text, held_to, read_json, write_fresh
from corpus.target import Target
from corpus.values import NO_DIMS, InputType, Value, fit_value, read_inputs_noting

TEST_DATA = "test_data_set_0"


@dataclass(frozen=True)
class Imported:
    """A foreign file as its framework read it: the program, the inputs that came with it, remarks.

    `format` is that of the program, where it is another one than the file was opened as.
    """

    program: bytes
    inputs: Mapping[str, Value] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    format: str = ""


Importer: TypeAlias = Callable[[str, Path], Imported]
"""Opens a foreign file of a format; raises `UserError`."""


def open_case(
    path: str | Path,
    *,
    inputs: Path | None = None,
    seed: int = 0,
    dims: Mapping[str, int] = NO_DIMS,
    memory_bytes: int = DEFAULT_MEMORY,
    trust: bool = False,
    target: Target | None = None,
    importer: Importer | None = None,
    load_only: bool = False,
) -> Case:
    """The case at a path: a program's file, or a folder with a program and perhaps inputs and `case.json`.

    Inputs come from `inputs` (an npz or a folder of `input_*.pb`), else from the folder, else from the seed,
    with `dims` for symbolic dims; `load_only` does without those that cannot be had. `target` replaces the
    saved one. Raises `UserError` for no case, or one too large; an invalid program opens.
    """
    path = Path(path)
    found, file, facts = _locate(path)
    foreign = _import(found, file, trust, importer)
    found = find_format(foreign.format) if foreign and foreign.format else found
    program = foreign.program if foreign else found.read_program(file, memory_bytes)
    model = found.parse(program, str(file))
    found.check(model, str(file), memory_bytes)
    if not trust:
        _must_only_compute(found, program, str(file))
    external = found.external_files(model, file.parent, str(file))
    source = inputs if inputs is not None else _inputs_beside(path)
    made = partial(_made, found, model, (seed, dims), foreign=foreign, where=str(file))
    try:
        types = found.input_types(model, str(file))
        values, notes = _read(found, source, types, memory_bytes) if source else made(types)
    except UserError:
        loads = load_only or dict(facts.get("settings", {})).get(LOAD) == ONLY
        if not loads or inputs is not None:
            raise
        values, notes = {}, ()
    case = _as_told(Case(found.name, program, values, target, external), facts, str(path), notes)
    return (case.for_loading() if load_only else case).knowing(model).checked(str(path))


def _as_told(case: Case, facts: Mapping[str, Any], origin: str, notes: tuple[str, ...]) -> Case:
    """The case with what `case.json` says of it; a target that was asked for replaces the saved one."""
    return replace(
        case,
        target=case.target or (Target.of_data(facts["target"]) if facts.get("target") else None),
        settings=tuple(sorted(facts.get("settings", {}).items())),
        origin=facts.get("origin") or origin.encode(errors="backslashreplace").decode(),
        notes=(*facts.get("notes", ()), *notes),
    )


def must_be_known(case: Case, where: str, *, trust: bool) -> None:
    """Raises `UserError` for a case whose program calls code from outside, unless that is trusted."""
    if not trust:
        _must_only_compute(find_format(case.format), case.program, where)


def _must_only_compute(found: Format[Any], program: bytes, where: str) -> None:
    if complaint := found.calls_outside(program):
        raise UserError(f"{where}: {complaint}, which may do anything; give --trust if you trust it")


def _locate(path: Path) -> tuple[Format[Any], Path, Mapping[str, Any]]:
    """The format, the program's file, and what `case.json` says."""
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; name a case")
    if path.is_dir() and (path / CASE_FILE).is_file():
        facts = read_facts(path)
        found = find_format(facts["format"])
        return found, path / found.program_file, facts
    guessed = format_of(path)
    if guessed is None and path.is_dir():
        raise UserError(f"{path}: holds no program ({_programs()}); name a case folder or a program's file")
    if guessed is None:
        raise UserError(
            f"{path}: not a program's file by its name ({_suffixes()}); name one, or a case folder"
        )
    return guessed, path / guessed.program_file if path.is_dir() else path, {}


def _import(found: Format[Any], file: Path, trust: bool, importer: Importer | None) -> Imported | None:
    """Import a foreign file through its framework; None for a file that crux reads itself."""
    if not found.is_foreign(file):
        return None
    if found.runs_code and not trust:
        raise UserError(
            f"{file}: opening this {found.name} program runs its code; give --trust if you trust it"
        )
    if importer is None:
        raise UserError(f"{file}: only {found.name} itself opens this; give it to `crux check`")
    return importer(found.name, file)


def _made(
    found: Format[Any],
    model: Any,
    drawn: tuple[int, Mapping[str, int]],
    types: Mapping[str, InputType],
    foreign: Imported | None,
    where: str,
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """The inputs that came with a foreign file where it has them all, else values from the seed."""
    _must_be_dims(drawn[1], types, where)
    if foreign is None or not types.keys() <= foreign.inputs.keys():
        try:
            return found.make_inputs(model, *drawn), foreign.notes if foreign else ()
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
    given = {name: fit_value(name, foreign.inputs[name], declared, where) for name, declared in types.items()}
    return given, foreign.notes


def _must_be_dims(dims: Mapping[str, int], types: Mapping[str, InputType], where: str) -> None:
    texts = {dim for each in types.values() for dim in each.shape or () if isinstance(dim, str)}
    names = texts | {word for text in texts for word in re.findall(r"\w+", text)}
    if unknown := next((name for name in dims if name not in names), None):
        has = ", ".join(sorted(texts)[:8]) or "none"
        raise UserError(f"{where}: no input has a symbolic dim {unknown!r} (it has {has}); mend --dims")


def _programs() -> str:
    return ", ".join(find_format(name).program_file for name in format_names())


def _suffixes() -> str:
    formats = [find_format(name) for name in format_names()]
    return ", ".join(dict.fromkeys(each for found in formats for each in (*found.suffixes, *found.foreign)))


def _inputs_beside(path: Path) -> Path | None:
    """Inputs kept in a case folder; a program's file alone has none."""
    if not path.is_dir():
        return None
    return next((path / name for name in (INPUTS_FILE, TEST_DATA) if (path / name).exists()), None)


def has_inputs(path: Path) -> bool:
    """Whether inputs are kept beside the program, so that none are made from a seed."""
    return _inputs_beside(path) is not None


def _read(
    found: Format[Any], source: Path, types: Mapping[str, InputType], memory_bytes: int
) -> tuple[dict[str, Value], tuple[str, ...]]:
    if not source.exists():
        raise UserError(f"{source}: no such inputs; name an npz file or a folder of input_*.pb")
    if source.suffix == ".pb":
        source = source.parent  # one of the files of such a folder names it
    if source.is_dir():
        return found.read_test_data(source, types, memory_bytes), ()
    return read_inputs_noting(source, types, memory_bytes=memory_bytes)


FOLDER = Path(__file__).with_name("regressions")
EXPECTED_FILE = "expected.json"
EXPECTED = Fields({"title": Text(), "package": Text(r"[\w.-]{1,200}"), "shown": {"": [Text()]}})

Shown = tuple[str, str, str]
"""Outcome, phase and kind of a symptom: what stays the same between releases that show one bug."""


@dataclass(frozen=True)
class Regression:
    """A case and what it shows, by release of the package that it was run with; `pass` where it is mended."""

    name: str
    title: str
    case: Case
    package: str
    shown: Mapping[str, Shown] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the case, and `expected.json` beside it."""
        self.case.save(folder)
        facts = {
            "title": self.title,
            "package": self.package,
            "shown": {release: list(shown) for release, shown in sorted(self.shown.items())},
        }
        text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
        write_fresh(folder / EXPECTED_FILE, text)


def load_regression(folder: Path) -> Regression:
    """Read a folder of the corpus; raises `UserError` where it is not one."""
    path, advice = folder / EXPECTED_FILE, "write it with `crux replay --record`"
    facts = held_to(read_json(path, advice=advice), EXPECTED, str(path), advice)
    if any(len(each) != 3 for each in facts["shown"].values()):
        raise UserError(f"{path}: what is shown is outcome, phase and kind; {advice}")
    shown = {release: (each[0], each[1], each[2]) for release, each in facts["shown"].items()}
    title, package = facts["title"], facts["package"]
    return Regression(folder.name, title, Case.load(folder), package, shown)


def load_regressions() -> Iterator[Regression]:
    """Yield every case of the corpus, by name."""
    for path in sorted(FOLDER.iterdir()):
        if (path / CASE_FILE).is_file():
            yield load_regression(path)
