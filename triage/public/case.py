"""A case as the library's callers see it: a program with its inputs, read from a case folder."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .child import UserError, ask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FACTS, INPUTS = "case.json", "inputs.npz"


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


@dataclass(frozen=True, eq=False)
class Case:
    """A program, its inputs and its settings: the thing to test. Immutable.

    A case is a folder, read by `load` and written by `save`. `program` holds the exact bytes of the program
    without its external data, `settings` are those of the case itself, `origin` is the path or seed it came
    from. `case_id` hashes the exact bytes; `canonical_hash` is blind to names. Two cases are equal when
    their `case_id`, target and origin are.
    """

    format: str
    program: bytes
    target: str | None
    settings: tuple[tuple[str, str], ...]
    origin: str
    notes: tuple[str, ...]
    case_id: str
    canonical_hash: str
    measure: Measure
    _files: Mapping[str, bytes | Path] = field(repr=False)
    _dtypes: Mapping[str, str] = field(repr=False)
    _owner: Any = field(default=None, repr=False)

    @classmethod
    def load(cls, folder: Path) -> Case:
        """Read a case folder; UserError when it is not sound. Weights stay where they are."""
        return case_of(ask("load", folder=folder), Path(folder))

    def save(self, folder: Path) -> None:
        """Write the folder; what else lies in an existing folder stays."""
        import shutil

        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: is a file; name a folder for the case")
        for name, content in self._files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                place.write_bytes(content)
            elif not (place.exists() and place.samefile(content)):
                shutil.copyfile(content, place)

    @cached_property
    def inputs(self) -> Mapping[str, Any]:
        """The inputs by name: arrays, a list of them for a sequence, None for an absent optional."""
        content = self._files[INPUTS]
        assert isinstance(content, bytes)
        return dict(_values(content, self._dtypes))

    def __eq__(self, other: object) -> bool:
        return self._identity == other._identity if isinstance(other, Case) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[str, str | None, str]:
        return self.case_id, self.target, self.origin


def case_of(document: Mapping[str, Any], folder: Path, owner: Any = None) -> Case:
    """The case that lies in a folder and that the child has described; `owner` removes the folder."""
    program, weights = folder / document["program_file"], document["weights"]
    small = {path.name: path.read_bytes() for path in (program, folder / INPUTS, folder / FACTS)}
    return Case(
        document["format"],
        small[program.name],
        document["target"],
        tuple(map(tuple, document["settings"])),
        document["origin"],
        tuple(document["notes"]),
        document["case_id"],
        document["canonical_hash"],
        Measure(**{**document["measure"], "ops": tuple(document["measure"]["ops"])}),
        # `case.json` makes a folder a case, and comes last
        {**{name: Path(place) for name, place in weights.items()}, **small},
        document["dtypes"],
        owner if weights else None,
    )


def _values(content: bytes, dtypes: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield inputs by name, a sequence's items together; `dtypes` has the type of each."""
    import numpy as np

    lists: dict[str, list[Any]] = {}
    with np.load(io.BytesIO(content)) as members:
        for member in members.files:
            name, _, item = member.rpartition("#")
            if member in dtypes:
                yield member, _typed(members[member], dtypes[member])
            elif item == "absent":
                yield name, None
            else:
                items = [] if item == "empty" else [_typed(members[member], dtypes[name])]
                if name not in lists:
                    lists[name] = []
                    yield name, lists[name]
                lists[name] += items


def _typed(array: NDArray[Any], name: str) -> NDArray[Any]:
    """The array, its bits read as a type of ml_dtypes' where they are one's."""
    if array.dtype.name == name or array.dtype.kind == "U":
        return array
    import ml_dtypes

    return array.view(getattr(ml_dtypes, name))


def write_inputs(path: Path, inputs: Mapping[str, Any]) -> None:
    """Write values as the members of `inputs.npz`: a list is a sequence, None an absent optional."""
    import zipfile

    import numpy as np

    with zipfile.ZipFile(path, "w") as archive:
        for name, array in _members(inputs):
            if f"{name}.npy" in archive.NameToInfo:
                raise UserError(f"inputs: two of them would be kept as {name!r}; rename one")
            try:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)
            except (ValueError, UnicodeError) as error:
                raise UserError(f"input {name[:40]!r} cannot be kept: {error}") from error


def _members(inputs: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    import numpy as np

    for name, value in inputs.items():
        if value is None:
            yield f"{name}#absent", np.zeros(0, np.uint8)
        elif not isinstance(value, list):
            yield name, _kept(value)
        elif not value:
            yield f"{name}#empty", np.zeros(0, np.uint8)
        else:
            yield from ((f"{name}#{at}", _kept(item)) for at, item in enumerate(value))


def _kept(value: Any) -> np.ndarray[Any, Any]:
    """The array as numpy can keep it: strings as `U`, what is no type of numpy's as bits."""
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind == "O":
        return np.array([str(text) for text in array.ravel()], np.str_).reshape(array.shape)
    if array.dtype.isbuiltin == 2:
        return np.ascontiguousarray(array).view(f"<u{array.dtype.itemsize}").reshape(array.shape)
    return array
