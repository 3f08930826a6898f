"""A program as a graph of bindings, in data alone: what the formats `torch` and `relax` keep and reduce.

A program is a JSON document. Arguments are JSON with tags: `{"ref": name}` is another binding's result, an
input or a constant; every other tag is a literal that only the format's worker understands. A binding may
hold bodies (`{"graph": …}`) that see the names around them; no name is given twice in a program.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np

from corpus.errors import UserError
from corpus.format import Measure
from corpus.reading import is_deeper, load_json
from corpus.values import Shape, Tensor, stored

if TYPE_CHECKING:
    from corpus.tir.tree import Function

Json: TypeAlias = Any
VERSION = 1
MOST_DEPTH = 150
MOST_DIMS = 32
"""What numpy goes through element by element."""
REF, GRAPH, CALL = "ref", "graph", "function"


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a program: a tensor's dtype and dims, with symbolic dims by name.

    `declared` is the program's own type if it is another one: a tensor of any dims, a shape or a number, a
    function's tuple. In torch programs a `layout` tells how an unusual tensor lies in memory: its dims from
    the outermost to the innermost, each with its gap, which is how many times as far apart its elements are
    as they need be, 0 where all are the same.
    """

    name: str
    dtype: str
    shape: Shape
    declared: Json = None


@dataclass(frozen=True)
class Binding:
    """One operator applied: its result's name, its arguments, and by name what else it is told."""

    name: str
    op: str
    args: tuple[Json, ...] = ()
    kwargs: Mapping[str, Json] = field(default_factory=dict)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The names it reads from around it, in order, its bodies' captured names included."""
        return tuple(dict.fromkeys(_free([*self.args, *self.kwargs.values()])))

    @cached_property
    def bodies(self) -> tuple[Graph, ...]:
        """The graphs inside it."""
        found = (item for item in _walk([*self.args, *self.kwargs.values()]) if tag_of(item) == GRAPH)
        return tuple(graph_of_json(item[GRAPH]) for item in found)

    @cached_property
    def calls(self) -> tuple[str, ...]:
        """The program's own functions that it names."""
        everything = _walk_all([*self.args, *self.kwargs.values()])
        return tuple(dict.fromkeys(item[CALL] for item in everything if tag_of(item) == CALL))

    def mapped(self, change: Callable[[Json], Json]) -> Binding:
        """The binding with every literal and reference changed, from the inside out."""
        args = tuple(_map(item, change) for item in self.args)
        return replace(self, args=args, kwargs={key: _map(item, change) for key, item in self.kwargs.items()})

    def with_bodies(self, change: Callable[[Graph], Graph]) -> Binding:
        """The binding with each graph inside it changed; what is inside of that is up to `change`."""

        def body(item: Json) -> Json:
            is_graph = tag_of(item) == GRAPH
            return {GRAPH: graph_to_json(change(graph_of_json(item[GRAPH])))} if is_graph else item

        return self.mapped(body)


@dataclass(frozen=True)
class Graph:
    """Bindings in order, what flows in and what comes out. `facts` is what only the worker understands."""

    inputs: tuple[Input, ...]
    bindings: tuple[Binding, ...]
    outputs: tuple[str, ...]
    facts: Mapping[str, Json] = field(default_factory=dict)

    def walk(self) -> Iterator[Binding]:
        """Yield every binding, depth first: a body's bindings follow the binding that holds the body."""
        for binding in self.bindings:
            yield binding
            for body in binding.bodies:
                yield from body.walk()


@dataclass(frozen=True)
class GraphProgram:
    """The main graph, the constants that it holds, its own functions by name.

    `loops` are functions that are no graphs but trees of loops (TVM's PrimFuncs), `opaque` those that are
    neither, as their framework writes them; a document has both as `opaque`.
    """

    format: str
    main: Graph
    constants: Mapping[str, Tensor] = field(default_factory=dict)
    functions: Mapping[str, Graph] = field(default_factory=dict)
    opaque: Mapping[str, Json] = field(default_factory=dict)
    facts: Mapping[str, Json] = field(default_factory=dict)
    loops: Mapping[str, PrimFunc] = field(default_factory=dict)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that the program gives."""
        graphs = (self.main, *self.functions.values())
        bindings = [binding for graph in graphs for binding in graph.walk()]
        found = {binding.name for binding in bindings}
        bodies = (body for binding in bindings for body in binding.bodies)
        found |= {item.name for graph in (*graphs, *bodies) for item in graph.inputs}
        return frozenset(found | {*self.constants, *self.functions, *self.opaque, *self.loops})

    @property
    def told_outside(self) -> dict[str, Json]:
        """The functions that are no graphs, as the document has them."""
        return {**self.opaque, **{name: each.told for name, each in self.loops.items()}}

    def to_bytes(self) -> bytes:
        """The document: one binding a line, the same bytes for the same program."""
        parts = {
            "format": self.format,
            "version": VERSION,
            "main": self.main,
            "constants": {name: _encoded(value) for name, value in self.constants.items()},
            "functions": dict(self.functions),
            "opaque": self.told_outside,
            "facts": dict(self.facts),
        }
        lines = [f"{json.dumps(key)}: {_dumped(item)}" for key, item in parts.items()]
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def parse_program(text: bytes, name: str, where: str) -> GraphProgram:
    """The program of a document of this format; UserError when it is none."""
    try:
        document = load_json(text)
        if not isinstance(document, dict) or is_deeper(document, MOST_DEPTH):
            raise ValueError(f"it is no object, or nested more than {MOST_DEPTH} times")
        if document["format"] != name or document["version"] != VERSION:
            raise ValueError(f"it is of format {document['format']!r}, version {document['version']!r}")
        opaque, loops = parted(document["opaque"])
        program = GraphProgram(
            name,
            graph_of_json(document["main"]),
            {key: _decoded(*item) for key, item in document["constants"].items()},
            {key: graph_of_json(item) for key, item in document["functions"].items()},
            opaque,
            dict(document["facts"]),
            loops,
        )
        check_names(program)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        text_of = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
        raise UserError(f"{where}: no {name} program ({' '.join(text_of.split())[:120]})") from None
    return program


def check_names(program: GraphProgram) -> None:
    """ValueError where a name is read before it is given, or given twice."""
    given: set[str] = set()
    for name in (*program.constants, *program.functions, *program.opaque, *program.loops):
        _give(name, given)
    for graph in (*program.functions.values(), program.main):
        _check_graph(graph, given)
    for graph in (program.main, *program.functions.values()):
        unknown = {call for binding in graph.walk() for call in binding.calls} - given
        if unknown:
            raise ValueError(f"function {min(unknown)!r} is not there")


def _check_graph(graph: Graph, given: set[str]) -> None:
    for item in graph.inputs:
        _give(item.name, given)
        if dtype_of(item.dtype) is None or None in item.shape:
            raise ValueError(f"input {item.name!r} has no type")
    for binding in graph.bindings:
        missing = [name for name in binding.reads if name not in given]
        if missing:
            raise ValueError(f"{binding.name!r} reads {missing[0]!r}, which is not there")
        for body in binding.bodies:
            _check_graph(body, given)
        _give(binding.name, given)
    if not graph.outputs or not given.issuperset(graph.outputs):
        raise ValueError("an output is not there")


def _give(name: str, given: set[str]) -> None:
    if not name or name in given:
        raise ValueError(f"the name {name!r} is given twice, or is none")
    given.add(name)


def graph_of_json(item: Json) -> Graph:
    """The graph that a JSON object spells."""
    return Graph(
        tuple(
            Input(_text(name), _text(dtype), _dims(shape), *told)
            for name, dtype, shape, *told in item["inputs"]
        ),
        tuple(
            Binding(_text(name), _text(op), tuple(args), dict(kwargs))
            for name, op, args, kwargs in item["bindings"]
        ),
        tuple(map(_text, item["outputs"])),
        dict(item.get("facts", {})),
    )


def _text(item: Json) -> str:
    if not isinstance(item, str):
        raise ValueError(f"{str(item)[:40]!r} is no name")
    return item


def _dims(shape: Json) -> tuple[int | str | None, ...]:
    if len(shape) > MOST_DIMS:
        raise ValueError(f"{len(shape)} dims, over {MOST_DIMS}")
    if odd := [dim for dim in shape if not (dim is None or isinstance(dim, (int, str)))]:
        raise ValueError(f"{str(odd[0])[:40]!r} is no dim")
    return tuple(shape)


def graph_to_json(graph: Graph) -> Json:
    """The JSON object that spells a graph."""
    return {
        "inputs": [_input_to_json(item) for item in graph.inputs],
        "bindings": [[b.name, b.op, list(b.args), dict(b.kwargs)] for b in graph.bindings],
        "outputs": list(graph.outputs),
        **({"facts": dict(graph.facts)} if graph.facts else {}),
    }


def _input_to_json(item: Input) -> Json:
    told = [item.declared] if item.declared is not None else []
    return [item.name, item.dtype, list(item.shape), *told]


def measure(program: GraphProgram) -> Measure:
    """Measure a program's size; its bindings are its nodes."""
    ops = tuple(binding.op for binding in program.main.walk())
    return Measure(
        nodes=len(ops),
        function_nodes=sum(1 for graph in program.functions.values() for _ in graph.walk()),
        bytes=len(program.to_bytes()),
        initializer_bytes=sum(value.nbytes for value in program.constants.values()),
        inputs=len(program.main.inputs),
        outputs=len(program.main.outputs),
        ops=ops,
    )


def tag_of(item: Json) -> str:
    """The tag of a tagged object; empty for anything else."""
    return next(iter(item)) if isinstance(item, dict) and len(item) == 1 else ""


def _free(items: Json) -> Iterator[str]:
    """Yield the references that these items take from outside, nested bodies included."""
    for item in _walk(items):
        if tag_of(item) == REF:
            yield item[REF]
        elif tag_of(item) == GRAPH:
            graph = graph_of_json(item[GRAPH])
            own = {one.name for one in graph.inputs} | {binding.name for binding in graph.bindings}
            reads = [name for binding in graph.bindings for name in binding.reads]
            yield from (name for name in (*reads, *graph.outputs) if name not in own)


def _walk(item: Json) -> Iterator[Json]:
    """Yield every object and literal inside, bodies as one."""
    yield item
    if isinstance(item, list | tuple):
        for inner in item:
            yield from _walk(inner)
    elif isinstance(item, dict) and tag_of(item) != GRAPH:
        for inner in item.values():
            yield from _walk(inner)


def _walk_all(item: Json) -> Iterator[Json]:
    """Walk a document as `_walk` does, with bodies."""
    for found in _walk(item):
        yield found
        if tag_of(found) == GRAPH:
            yield from _walk_all([found[GRAPH]["bindings"]])


def _map(item: Json, change: Callable[[Json], Json]) -> Json:
    if isinstance(item, list):
        return change([_map(inner, change) for inner in item])
    if isinstance(item, dict) and tag_of(item) != GRAPH:
        return change({key: _map(inner, change) for key, inner in item.items()})
    return change(item)


def _dumped(item: Json) -> str:
    """Compact JSON, with a line for each binding of a graph of the program."""
    if isinstance(item, Graph):
        parts = graph_to_json(item)
        bindings = ",\n  ".join(json.dumps(binding) for binding in parts.pop("bindings"))
        rest = ", ".join(f"{json.dumps(key)}: {json.dumps(part)}" for key, part in parts.items())
        return f'{{{rest}, "bindings": [\n  {bindings}]}}'
    if isinstance(item, dict) and any(isinstance(part, Graph) for part in item.values()):
        return "{" + ", ".join(f"{json.dumps(key)}: {_dumped(part)}" for key, part in item.items()) + "}"
    return json.dumps(item)


def _encoded(value: Tensor) -> Json:
    data = base64.b64encode(stored(value).tobytes()).decode("ascii")
    return [value.dtype.name, list(value.shape), data]


def _decoded(dtype: str, shape: list[int], data: str) -> Tensor:
    """The array; ValueError where its bytes do not fill it."""
    kind = dtype_of(dtype)
    if kind is None or any(dim < 0 for dim in shape):
        raise ValueError(f"a constant is of dtype {dtype!r} and shape {shape!r}")
    raw = base64.b64decode(data, validate=True)
    if len(raw) != math.prod(shape) * kind.itemsize:
        raise ValueError("a constant's bytes do not fill it")
    return np.frombuffer(raw, kind).reshape(shape)


def dtype_of(name: str) -> np.dtype[Any] | None:
    """numpy's or ml_dtypes' dtype of that name; None for what holds no numbers."""
    found = getattr(ml_dtypes, name, None) if name.startswith(("bfloat", "float8")) else None
    try:
        kind = np.dtype(found or name)
    except TypeError:
        return None
    return kind if found is not None or kind.kind in "biufc" else None


def decode_values(items: Mapping[str, Json]) -> dict[str, Tensor]:
    """Arrays as a document keeps them: dtype, shape, base64 of the bytes."""
    return {name: _decoded(*item) for name, item in items.items()}


LOOPS = "tir"


@dataclass(frozen=True)
class PrimFunc:
    """A PrimFunc as its tree; what the document says of it is written once."""

    function: Function

    @cached_property
    def told(self) -> Json:
        """The JSON object that spells it, as the worker takes it."""
        from corpus.tir.codec import Encoder

        return {LOOPS: Encoder().function(self.function)}


def is_loops(item: Json) -> bool:
    """Whether an opaque function is told as a tree."""
    return isinstance(item, dict) and len(item) == 1 and LOOPS in item


def primfunc_of(item: Json) -> PrimFunc:
    """The PrimFunc that such an object spells; ValueError, LookupError or TypeError where it spells none."""
    from corpus.tir.codec import Decoder  # a graph without loops needs no TIR

    return PrimFunc(Decoder().function(item[LOOPS]))


def parted(outside: Mapping[str, Json]) -> tuple[dict[str, Json], dict[str, PrimFunc]]:
    """The functions of a document that are no graphs: those in a form of TVM's, and those as trees."""
    opaque = {name: item for name, item in outside.items() if not is_loops(item)}
    return opaque, {name: primfunc_of(item) for name, item in outside.items() if is_loops(item)}
