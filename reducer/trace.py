"""Where a reduction came along: the curve of its sizes, and what is left of the original."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from corpus.onnx.graph import walk_nodes
from reducer.subject.onnx.subject import OnnxSubject


@dataclass(frozen=True, slots=True)
class Point:
    """The size of the smallest failing candidate after a number of checks; bytes without external weights."""

    check: int
    nodes: int
    bytes: int


def kept_nodes(original: onnx.ModelProto, reduced: OnnxSubject) -> tuple[int, ...]:
    """Return the original's nodes of which something is left, told by the names of what they compute.

    Indices into the original's main graph; a node in a body counts for the node that holds the body. A name
    that two nodes of the main graph use, in bodies of theirs, tells nothing.
    """
    holders = _holders(original.graph)
    names = {reduced.origin(name) for node in walk_nodes(reduced.model.graph) for name in node.output}
    found = {_holder(name, holders) for name in names if name}
    return tuple(sorted(found.difference([-1])))


def _holder(name: str, holders: Mapping[str, int]) -> int:
    """The node that computes a name, or that was unfolded into what does: `node/inner` came out of `node`."""
    while name not in holders and "/" in name:
        name = name.rpartition("/")[0]
    return holders.get(name, -1)


def _holders(graph: onnx.GraphProto) -> Mapping[str, int]:
    """Map each computed tensor to the index of its node in the main graph; -1 if it is ambiguous."""
    found: dict[str, int] = {}
    for index, outer in enumerate(graph.node):
        within = onnx.GraphProto(node=[outer])
        for name in {name for node in walk_nodes(within) for name in node.output if name}:
            found[name] = -1 if name in found else index
    return found
