"""Optimisation patterns: the least graph that was seen to make one pass of a compiler's optimiser fire.

A pattern is kept as one `.onnx` file, so that any tool opens it; what else is known of it stands in the
model's `metadata_props`. A dim of an input that has a name may be of any size, the same one wherever the name
stands; every other dim, every type and every constant is what the pass looks for (OATest §3.2.1: an abstract
pattern keeps the structure and lets go of the sizes).

A pattern of a graph is a document of its format (`NAME.relax.json`), and its facts hold what else is known.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx

from corpus.errors import UserError
from corpus.formats.onnx import check, parse
from corpus.graphs.format import canonical as canonical_graph
from corpus.graphs.program import GraphProgram, parse_program
from corpus.onnx.canonical import canonical
from corpus.onnx.model_file import read_model_bytes
from corpus.outputs import put
from corpus.reading import read_bytes
from corpus.values import Shape

FOLDER = Path(__file__).with_name("patterns")
SUFFIX = ".onnx"
FACTS = ("backend", "pass", "origin", "opsets", "least")
"""The keys of `metadata_props`, in their order."""

_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Pattern:
    """`opsets` are the first and the last version of ONNX's own operator set in which the pass fires.

    `domains` are the versions of the other operator sets, `least` the least size of each named dim.
    """

    backend: str
    fires: str
    origin: str
    opsets: tuple[int, int]
    graph: onnx.GraphProto
    domains: tuple[tuple[str, int], ...] = ()
    least: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """The pass, and a digest of the graph that names and origin have no part in; a file's name."""
        return f"{re.sub(r'[^0-9A-Za-z_]', '_', self.fires)[:80]}-{self.digest[:10]}"

    @cached_property
    def digest(self) -> str:
        """The same for two patterns that differ in names and in where they come from only."""
        form = canonical(self.model(self.opsets[1]))
        return hashlib.sha256(self.backend.encode() + b"\0" + self.fires.encode() + b"\0" + form).hexdigest()

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """The operators in the graph's order, Constants left out."""
        return tuple(node.op_type for node in self.graph.node if node.op_type != "Constant")

    def model(self, opset: int, sizes: Mapping[str, int] | None = None) -> onnx.ModelProto:
        """The pattern alone as a model of this opset; with `sizes` its named dims are of these."""
        model = onnx.ModelProto(ir_version=_IR_VERSION, producer_name="tensorcrux", graph=self.graph)
        model.opset_import.add(domain="", version=opset)
        for domain, version in self.domains:
            model.opset_import.add(domain=domain, version=version)
        chosen = sizes or {}
        for info in model.graph.input:
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_param in chosen:
                    dim.dim_value = chosen[dim.dim_param]
        return model

    def sized_model(self) -> onnx.ModelProto:
        """The pattern alone in its newest opset, each named dim of another small size."""
        return self.model(self.opsets[1], self.usual_sizes)

    def settled(self) -> Pattern:
        """The pattern with a small size in the place of each named dim."""
        return replace(self, graph=self.sized_model().graph, least=())

    @property
    def usual_sizes(self) -> dict[str, int]:
        """A size for each symbolic dim that differs from the others where it may."""
        return {name: size + at for at, (name, size) in enumerate(self.least, 1)}

    def to_bytes(self) -> bytes:
        """The pattern as an `.onnx` file, with what it says of itself as metadata."""
        model = self.model(self.opsets[1])
        opsets = "-".join(map(str, self.opsets))
        least = " ".join(f"{name}={size}" for name, size in self.least)
        for key, value in zip(FACTS, (self.backend, self.fires, self.origin, opsets, least), strict=True):
            model.metadata_props.add(key=key, value=value)
        program: bytes = model.SerializeToString(deterministic=True)
        return program

    def save(self, folder: Path) -> Path:
        """Write `NAME.onnx`; the same pattern gives the same bytes."""
        path = folder / f"{self.name}{SUFFIX}"
        put(path, self.to_bytes())
        return path

    def facts(self) -> dict[str, object]:
        """The facts of a pattern that a person wants to know."""
        return {
            "name": self.name,
            "pass": self.fires,
            "operators": list(self.operators),
            "backend": self.backend,
            "opsets": f"{self.opsets[0]}-{self.opsets[1]}",
            "origin": self.origin,
        }


_IR_VERSION = 8
"""Of the operator sets that programs are grown in, every reader takes it."""


def read_pattern(program: bytes, where: str) -> Pattern:
    """The pattern in a file's bytes; raises `UserError` for another model."""
    model = parse(program, where)
    check(model, where, _MOST_BYTES)
    facts = {entry.key: entry.value for entry in model.metadata_props}
    opsets = _numbers(facts.get("opsets", "").split("-"))
    least = [entry.partition("=")[::2] for entry in facts.get("least", "").split()]
    sizes = _numbers(size for _, size in least)
    if not set(FACTS) <= facts.keys() or opsets is None or len(opsets) != 2 or sizes is None:
        raise UserError(f"{where}: no pattern, for it does not say {', '.join(FACTS)}; extract it again")
    domains = tuple((each.domain, each.version) for each in model.opset_import if each.domain)
    named = tuple(zip((name for name, _ in least), sizes, strict=True))
    known = facts["backend"], facts["pass"], facts["origin"]
    return Pattern(*known, (opsets[0], opsets[1]), model.graph, domains, named)


def _numbers(texts: Iterable[str]) -> list[int] | None:
    """The sizes and versions that texts spell; None where one spells none, or one that none may have."""
    found = list(texts)
    return [int(text) for text in found] if all(re.fullmatch(r"\d{1,4}", text) for text in found) else None


def load_pattern(path: Path) -> Pattern:
    """The pattern of a file; raises `UserError` if it holds none."""
    return read_pattern(read_model_bytes(path, _MOST_BYTES), str(path))


def load_patterns(folder: Path = FOLDER) -> Iterator[Pattern]:
    """Yield every pattern of a folder, by name; raises `UserError` where there is none."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not paths:
        raise UserError(f"{folder}: holds no patterns ({SUFFIX} files); `crux patterns extract` makes them")
    yield from map(load_pattern, paths)


GRAPHS = FOLDER / "relax"
GRAPH_SUFFIX = ".relax.json"
_KEY = "pattern"
_KEYS = frozenset({"backend", "pass", "origin", "types", "ranges"})


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
        return hashlib.sha256(told + canonical_graph(self.program)).hexdigest()

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
        path = folder / f"{self.name}{GRAPH_SUFFIX}"
        facts = {**self.program.facts, _KEY: told}
        put(path, replace(self.program, facts=facts).to_bytes())
        return path


def load_graph_patterns(folder: Path) -> Iterator[GraphPattern]:
    """Yield the patterns of a folder, by name; UserError for a file that is none."""
    for path in sorted(folder.glob(f"*{GRAPH_SUFFIX}")):
        program = parse_program(read_bytes(path, _MOST_BYTES), "relax", str(path))
        facts: dict[str, Any] = dict(program.facts)
        told = facts.pop(_KEY, None)
        if not isinstance(told, dict) or not told.keys() >= _KEYS:
            raise UserError(f"{path}: no pattern; crux patterns extract writes them")
        types = {name: (str(dtype), tuple(dims)) for name, (dtype, dims) in told["types"].items()}
        ranges = {name: (float(low), float(high)) for name, (low, high) in told["ranges"].items()}
        backend, fires, origin = (str(told[key]) for key in ("backend", "pass", "origin"))
        yield GraphPattern(backend, fires, origin, replace(program, facts=facts), types, ranges)
