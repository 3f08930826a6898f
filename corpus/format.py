"""What a format of programs is: the record that each module of `corpus/formats` makes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from corpus.errors import UserError
from corpus.reading import ExternalFile, read_bytes
from corpus.values import InputType, Value

MOST_BYTES = 1 << 30
HEAD = 64 << 10


def read_document(name: str, path: Path, memory_bytes: int) -> bytes:
    """The bytes of a program of the format `name`; UserError for what cannot be one."""
    return read_whole(path, min(memory_bytes, MOST_BYTES), f"name a {name} program")


def read_whole(path: Path, most: int, advice: str) -> bytes:
    """The bytes of a file that is not empty; raises `UserError`."""
    data = read_bytes(path, most, advice)
    if not data:
        raise UserError(f"{path}: empty; {advice}")
    return data


def mentions(path: Path, pattern: str) -> bool:
    """Whether the beginning of a text matches: what tells scripts of two frameworks apart."""
    try:
        head = read_bytes(path, MOST_BYTES)[:HEAD]
    except UserError:
        return False
    return re.search(pattern, head.decode("utf-8", "replace"), re.MULTILINE) is not None


@dataclass(frozen=True, slots=True)
class Measure:
    """`nodes` and `ops` are those of the main graph and its nested bodies, function bodies apart.

    `ops` is in walking order, one entry a node; an operator outside the standard domain is `domain:Op`.
    `bytes` is the program without external data, `initializer_bytes` all weights, external ones included.
    """

    nodes: int
    function_nodes: int
    bytes: int
    initializer_bytes: int
    inputs: int
    outputs: int
    ops: tuple[str, ...]


P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class Parse(Protocol[P_co]):
    """Makes a program of its bytes."""

    def __call__(self, program: bytes, where: str = ...) -> P_co:
        """The program; UserError, which names `where`, if it is none."""


def never(path: Path) -> bool:
    """False: crux reads every file of such programs itself."""
    return False


def only_computes(program: bytes) -> str:
    """Nothing: such a program cannot call what needs the user's trust."""
    return ""


def holds_all(program: object, folder: Path, where: str) -> tuple[ExternalFile, ...]:
    """Return no file: the document holds everything."""
    return ()


def refuse_test_data(folder: Path, types: Mapping[str, InputType], memory_bytes: int) -> dict[str, Value]:
    """Refuse ONNX's way of keeping inputs; raises `UserError`."""
    raise UserError(f"{folder}: inputs of such a program are kept in an .npz; name one")


def as_it_is(program: bytes, places: Mapping[str, str]) -> bytes:
    """The program itself, which refers to no file."""
    return program


def refuse_answer(answer: dict[str, Any], where: str) -> bytes:
    """Refuse what a framework's worker has opened; raises `UserError`."""
    raise UserError(f"{where}: no framework's own file holds such a program")


@dataclass(frozen=True, kw_only=True)
class Format(Generic[P]):
    """A format, with `P` for its own parsed program.

    `program_file` is the program's name in a case folder, `suffixes` those of files that hold one alone.
    `foreign` are the suffixes of files that only the framework opens. `target` is the backend that runs such
    programs if none is named. `unit` are the things that the measure counts as nodes, in a word.

    What a format must do: `read_program` gives a file's exact bytes, and UserError for what cannot be a
    program, before memory is taken; `check` raises UserError for a program that cannot be handled safely, or
    whose values cannot fit the memory; `input_types` is what the program takes, in order; `make_inputs` gives
    values for every required input, the same for the same seed, with the sizes of symbolic dims that are
    asked for; `canonical` is the program with names
    replaced by positions and without documentation; `print_text` is for a person to read.

    What a format may do: `is_foreign` says whether a file is for the framework to open, `runs_code` whether
    that needs the user's trust; `calls_outside` what the program calls that needs trust, in words, empty if
    it only computes; `external_files` are the files that it refers to, in order of first use, UserError for
    one that is not sound; `relocate` lets it refer to them at other places; `read_test_data` reads inputs
    kept in the format's own way; `from_worker` gives the bytes of a program that a framework's worker has
    opened, from its answer; `begin` starts what `check` will ask, without waiting for it.
    """

    name: str
    program_file: str
    suffixes: tuple[str, ...]
    target: str
    unit: str = "nodes"
    read_program: Callable[[Path, int], bytes]
    parse: Parse[P]
    check: Callable[[P, str, int], None]
    input_types: Callable[[P, str], dict[str, InputType]]
    make_inputs: Callable[[P, int, Mapping[str, int]], dict[str, Value]]
    canonical: Callable[[P], bytes]
    measure: Callable[[P], Measure]
    print_text: Callable[[P], str]
    foreign: tuple[str, ...] = ()
    is_foreign: Callable[[Path], bool] = never
    runs_code: bool = True
    calls_outside: Callable[[bytes], str] = only_computes
    external_files: Callable[[P, Path, str], tuple[ExternalFile, ...]] = holds_all
    relocate: Callable[[bytes, Mapping[str, str]], bytes] = as_it_is
    from_worker: Callable[[dict[str, Any], str], bytes] = refuse_answer
    begin: Callable[[], None] | None = None
    read_test_data: Callable[[Path, Mapping[str, InputType], int], dict[str, Value]] = refuse_test_data
