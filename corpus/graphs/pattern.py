"""Optimisation patterns of graphs: the least program that was seen to make one pass of a compiler fire.

A pattern is a document of its format (`NAME.relax.json`). What else is known of it stands in its facts: the
pass, where it came from, and by name the dtype and dims of what it gives.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from corpus.graphs.format import canonical
from corpus.graphs.program import GraphProgram, parse_program
from corpus.outputs import put
from corpus.reading import read_bytes
from corpus.values import Shape

FOLDER = Path(__file__).parents[1] / "patterns" / "relax"
MOST_BYTES = 64 << 20
SUFFIX = ".relax.json"
KEY = "pattern"
KEYS = frozenset({"backend", "pass", "origin", "types", "ranges"})


@dataclass(frozen=True)
class GraphPattern:
    """`types` are those of the program's tensors by name, `fires` the pass that changes it.

    `ranges` are the least and the greatest value that each input had in the program it was taken out of: an
    index beyond would read what is not there.
    """

    backend: str
    fires: str
    origin: str
    program: GraphProgram
    types: Mapping[str, tuple[str, Shape]]
    ranges: Mapping[str, tuple[float, float]]

    @cached_property
    def digest(self) -> str:
        """The same for two patterns that differ in names and in where they come from only."""
        told = f"{self.backend}\0{self.fires}\0".encode()
        return hashlib.sha256(told + canonical(self.program)).hexdigest()

    @property
    def name(self) -> str:
        """The pass, and a digest of the program; a file's name."""
        return f"{re.sub(r'[^0-9A-Za-z_]', '_', self.fires)[:80]}-{self.digest[:10]}"

    def save(self, folder: Path) -> Path:
        """Write it into a folder, under its own name."""
        told = {
            "backend": self.backend,
            "pass": self.fires,
            "origin": self.origin,
            "ranges": {name: list(each) for name, each in self.ranges.items()},
            "types": {name: [dtype, list(dims)] for name, (dtype, dims) in self.types.items()},
        }
        path = folder / f"{self.name}{SUFFIX}"
        facts = {**self.program.facts, KEY: told}
        put(path, replace(self.program, facts=facts).to_bytes())
        return path


def load_graph_patterns(folder: Path) -> Iterator[GraphPattern]:
    """Yield the patterns of a folder, by name; UserError for a file that is none."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        program = parse_program(read_bytes(path, MOST_BYTES), "relax", str(path))
        facts: dict[str, Any] = dict(program.facts)
        told = facts.pop(KEY, None)
        if not isinstance(told, dict) or not told.keys() >= KEYS:
            raise UserError(f"{path}: no pattern; crux patterns extract writes them")
        types = {name: (str(dtype), tuple(dims)) for name, (dtype, dims) in told["types"].items()}
        ranges = {name: (float(low), float(high)) for name, (low, high) in told["ranges"].items()}
        backend, fires, origin = (str(told[key]) for key in ("backend", "pass", "origin"))
        yield GraphPattern(backend, fires, origin, replace(program, facts=facts), types, ranges)
