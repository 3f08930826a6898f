"""The few nodes that the evidence names, before any search; wrong evidence costs two calls."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

import onnx

from reducer.move import Hints, Move, Search, first_of
from reducer.search import Items
from reducer.subject.base import NodeSubject
from reducer.subject.onnx.nodesets import keep_nodes
from reducer.subject.onnx.subject import OnnxSubject

Dims: TypeAlias = Mapping[str, Sequence[str] | None]

MOST = 24
"""A hint that names more nodes than this is no hint."""

DEEPEST = 64
"""So many steps up are looked at from the node at which the framework stopped."""

UPWARD = (4, 8)
"""So many steps up from what is wrong are looked at where the nodes around it do not suffice."""

WORTH = 0.8
"""A step fewer that leaves more than this share of the nodes is not asked for."""


def keep_named_nodes(subject: NodeSubject, hints: Hints) -> Search:
    """Keep only the nodes named by the evidence; where that is not enough, also those around them.

    Of a node at which the framework stopped, those that lead to it: the fewest steps up that suffice.
    """
    named = _named(subject, hints)
    if hints.stopped_at and len(named) == 1:
        led = yield from _keep_unshaped(subject, named, hints.dims)
        return led if led is not subject else (yield from _lead_to(subject, named, hints.dims))
    sets = dict.fromkeys((named, named | around(subject, named)))
    fitting = [keep for keep in sets if 0 < len(keep) < len(subject.nodes) and len(keep) <= MOST]
    return (yield from first_of(subject, [partial(subject.keep_nodes, keep) for keep in fitting]))


def _keep_unshaped(subject: NodeSubject, node: Items, dims: Dims) -> Search:
    """The node with all that leads to it without known dims, then with the shortest way from where they end.

    A cut nearer would give the framework dims that it must not know.
    """
    unshaped = _unshaped(subject, dims)
    ways = [_shortest_way(subject, node, name, unshaped) for at in node for name in subject.reads[at]]
    best = subject
    for keep in (node | _makers(subject, unshaped), *sorted(filter(None, ways), key=len)):
        if len(node) < len(keep) < len(best.nodes):
            best = yield from first_of(best, [partial(_cut_where_known, subject, keep, dims)])
            if best is subject or keep in ways:
                break
    return best


def _unshaped(subject: NodeSubject, dims: Dims) -> frozenset[str]:
    """What has no known dims, and what a cut would make a constant though the framework made none of it."""
    return frozenset(name for name, known in dims.items() if known is None or name not in subject.dynamic)


def _cut_where_known(subject: NodeSubject, keep: Items, dims: Dims) -> NodeSubject | None:
    """The nodes `keep`; what is cut has the dims that the framework knew, computed ones under a name."""
    kept = subject.keep_nodes(keep)
    if kept is None or not dims:
        return kept
    texts = {text: f"dim_{at}" for at, text in enumerate(chain.from_iterable(filter(None, dims.values())))}

    def declare(model: onnx.ModelProto) -> None:
        for info in model.graph.input:
            for dim, text in zip(info.type.tensor_type.shape.dim, dims.get(info.name) or (), strict=False):
                if not text.isdigit():
                    dim.dim_param = text if text.isidentifier() else texts[text]

    return kept.with_tensors({}, declare)


def _shortest_way(subject: NodeSubject, node: Items, name: str, unshaped: frozenset[str]) -> Items:
    """The fewest makers of tensors without known dims from an operand up to one that reads none; or none."""
    edge = [(name, node)] if name in unshaped else []
    seen = set[str]()
    while edge:
        name, way = edge.pop(0)
        if name in seen or name not in subject.producer:
            continue
        seen.add(name)
        at = subject.producer[name]
        above = [each for each in subject.reads[at] if each in unshaped]
        if not above:
            return way | {at}
        edge += [(each, way | {at}) for each in above]
    return frozenset()


def _lead_to(subject: NodeSubject, node: Items, dims: Dims) -> Search:
    """The node alone, then with what is 1, 2, 4, … steps up; between the last two by bisection."""
    best, low, steps = subject, -1, 0
    while best is subject and steps <= DEEPEST:
        keep = above(subject, node, steps)
        proposal = partial(_cut_where_known, subject, keep, dims)
        found = proposal()
        if found is None or len(found.nodes) >= len(subject.nodes):
            break
        if _may_lack_dims(subject, keep, dims) and (yield proposal):
            best = found
        else:
            low, steps = steps, 2 * steps or 1
    while best is not subject and steps - low > 1:
        middle = (low + steps) // 2
        keep = above(subject, node, middle)
        if len(keep) > WORTH * len(best.nodes):
            break
        proposal = partial(_cut_where_known, subject, keep, dims)
        if _may_lack_dims(subject, keep, dims) and (yield proposal):
            best, steps = proposal() or best, middle
        else:
            low = middle
    return best


def _may_lack_dims(subject: NodeSubject, keep: Items, dims: Dims) -> bool:
    """Whether dims can be unknown in these nodes alone, if unknown dims led to the failure.

    Only a node that loses dims makes them unknown: one without known dims that reads a tensor with some.
    """
    unshaped = _unshaped(subject, dims)
    makers = _makers(subject, unshaped)
    return not makers or any(name not in unshaped for at in keep & makers for name in subject.reads[at])


def above(subject: NodeSubject, nodes: Items, steps: int) -> Items:
    """These nodes, and their producers up to this many steps away."""
    found, edge = set(nodes), set(nodes)
    for _ in range(steps):
        read = {name for index in edge for name in subject.reads[index]}
        edge = {subject.producer[name] for name in read if name in subject.producer} - found
        found |= edge
    return frozenset(found)


def _named(subject: NodeSubject, hints: Hints) -> Items:
    """Nodes named by their own name or an output's; failing that, those of named types, rare ones first."""
    names = frozenset(hints.nodes)
    exact = {
        index
        for index, node in enumerate(subject.nodes)
        if node.name in names or any(subject.origin(name) in names for name in node.output if name)
    }
    if exact:
        return frozenset(exact)
    of_type: dict[str, list[int]] = {}
    for index, node in enumerate(subject.nodes):
        if node.op_type in hints.operators:
            of_type.setdefault(node.op_type, []).append(index)
    found: list[int] = []
    for members in sorted(of_type.values(), key=len):
        if len(found) + len(members) <= MOST:
            found += members
    return frozenset(found)


def around(subject: NodeSubject, nodes: Items) -> Items:
    """Return two steps up and one down."""
    found = set(above(subject, nodes, 2))
    made = {name for index in nodes for name in subject.nodes[index].output if name}
    found |= {index for index, reads in enumerate(subject.reads) if not made.isdisjoint(reads)}
    return frozenset(found)


def keep_divergent_nodes(subject: OnnxSubject, hints: Hints) -> Search:
    """Only the rewritten nodes; else those around them, then those above. Wrong evidence costs four calls."""
    rewritten = _makers(subject, hints.divergence)
    if not rewritten or len(rewritten) >= len(subject.nodes):
        return subject
    near = rewritten | around(subject, rewritten)
    further = (above(subject, rewritten, steps) for steps in UPWARD)
    keep = dict.fromkeys((rewritten, near, *(each for each in further if len(each) <= MOST)))
    return (yield from first_of(subject, [partial(keep_nodes, subject, each) for each in keep]))


def _makers(subject: NodeSubject, names: Iterable[str]) -> Items:
    return frozenset(subject.producer[name] for name in names if name in subject.producer)


MOVES = (
    Move("keep the nodes that the evidence names", 150, keep_named_nodes, once=True, on=NodeSubject),
    Move(
        "keep the nodes where values part",
        140,
        keep_divergent_nodes,
        reshapes=True,
        once=True,
        on=OnnxSubject,
    ),
)
