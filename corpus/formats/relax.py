"""Relax modules of TVM: their bindings as data; TVMScript and TVM's JSON are read in a worker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from corpus.callees import CARRIES_CODE, PLACES, UNNAMED, is_packed, may_call
from corpus.format import mentions
from corpus.graphs.format import graph_format
from corpus.graphs.program import is_loops, primfunc_of
from corpus.tir.scopes import untrusted_callees
from corpus.tir.tree import Module

Json: TypeAlias = Any
Nodes: TypeAlias = list[Any]

FOREIGN_NODES = (
    *("runtime.", "ffi.Module", "ffi.Function", "ffi.Error", "rpc.", "instrument.", "transform.Pass"),
)
"""Nodes of TVM's JSON that are no IR."""


def calls_outside(document: bytes) -> str:
    """Name a call or a content of a Relax document that needs trust; empty if there is none."""
    try:
        return next(_complaints(json.loads(document)), "")
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError):
        return "it is damaged, and so may call anything"


def _complaints(item: Json) -> Iterator[str]:
    """Yield what a document may not hold, in its bindings and in each of TVM's own JSON texts."""
    waiting = [item]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if isinstance(item.get("nodes"), list):
                yield from _in_nodes(item["nodes"])
            if is_loops(item):
                yield from _in_loops(item)
                continue
            if len(item) == 1 and "extern" in item and not is_packed(str(item["extern"])):
                yield f"it calls the function {str(item['extern'])[:80]!r}"
            waiting += item.values()
        elif isinstance(item, list):
            yield from _in_binding(item)
            waiting += item


def _in_loops(item: Json) -> Iterator[str]:
    """What a PrimFunc that is told as a tree calls; ValueError or the like for one that is damaged."""
    found = untrusted_callees(Module({"f": primfunc_of(item).function}))
    yield from (f"it calls the function {name[:80]!r}" for name in found)


def _in_binding(item: list[Json]) -> Iterator[str]:
    """A binding is a name, an operator, its arguments and more; other lists say nothing here."""
    if len(item) != 4 or not isinstance(item[1], str) or not isinstance(item[2], list):
        return
    operator = item[1].rpartition(".")[2]
    if operator in UNNAMED:
        yield f"it uses {item[1]}"
    place = PLACES.get(operator)
    if place is not None:
        given = item[2][place] if place < len(item[2]) else None
        name = given.get("string") if isinstance(given, dict) else None
        yield from _judged(operator, name)


def _in_nodes(nodes: Nodes) -> Iterator[str]:
    """Yield what TVM's JSON, a list of nodes that refer to each other by number, may not hold."""
    for node in nodes:
        kind, data = str(node.get("type", "")), node.get("data")
        if kind.startswith(FOREIGN_NODES):
            yield f"it holds a {kind}"
        elif kind == "ffi.String" and isinstance(data, str) and CARRIES_CODE.fullmatch(data):
            yield f"it has {data}"
        elif kind.endswith("ExternFunc"):
            name = _text(nodes, data.get("global_symbol"))
            if not is_packed(name or ""):
                yield f"it calls the function {(name or '?')[:80]!r}"
        elif kind.endswith("Call"):
            yield from _in_call(nodes, data)


def _in_call(nodes: Nodes, data: Json) -> Iterator[str]:
    operator = _node(nodes, data.get("op"))
    if not str(operator.get("type", "")).endswith(".Op"):
        return
    name = str(operator.get("data"))
    short = name.rpartition(".")[2]
    if short in UNNAMED:
        yield f"it uses {name}"
    place = PLACES.get(short)
    if place is not None:
        given = _node(nodes, data.get("args")).get("data")
        callee = given[place] if isinstance(given, list) and place < len(given) else None
        yield from _judged(short, _text(nodes, callee))


def _judged(operator: str, name: str | None) -> Iterator[str]:
    if not may_call(operator, name):
        yield f"it calls the function {(name or '?')[:80]!r}"


def _node(nodes: Nodes, number: Json) -> dict[str, Any]:
    """The node of a number; an empty one where there is none."""
    is_place = isinstance(number, int) and 0 <= number < len(nodes)
    return nodes[number] if is_place and isinstance(nodes[number], dict) else {}


def _text(nodes: Nodes, number: Json) -> str | None:
    """The text of a string, or of a literal that holds one."""
    node = _node(nodes, number)
    if str(node.get("type", "")).endswith("StringImm"):
        node = _node(nodes, (node.get("data") or {}).get("value"))
    found = node.get("data")
    return found if node.get("type") == "ffi.String" and isinstance(found, str) else None


def is_foreign(path: Path) -> bool:
    """Whether a file is TVMScript, or a module in TVM's JSON."""
    if path.suffix == ".json":
        return not path.name.endswith(".relax.json") and path.name != "case.json"
    return path.suffix == ".py" and mentions(path, r"^\s*(from|import)\s+tvm\b")


FORMAT = graph_format(
    "relax",
    "tvm",
    foreign=(".py", ".json"),
    is_foreign=is_foreign,
    calls_outside=calls_outside,
    unit="bindings",
)
