"""Fewer nodes of the main graph: whole operator types first, then single nodes; by cut, then by link.

Fewer of the case's own passes and of the graph's outputs, too, which is the same search: what nobody asks for
is not compared and may be fused away.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from reducer.move import Hints, Move, Search, over_sets
from reducer.search import (
    PATIENCE,
    Items,
    SetSearch,
    counter_dd,
    drop_one_at_a_time,
    drop_runs,
    fewest,
    fewest_in_full,
    find_essentials,
    nothing_or,
)
from reducer.subject.base import NodeSubject, Subject

Groups: TypeAlias = list[list[int]]

RARE = 3
"""An operator type with no more nodes than this is rare."""

NEAR = (1, 4)
"""How many steps up from an essential node the other nodes of its pattern are looked for."""

FAR = 12
"""So many steps up are looked at where they are far fewer than all the nodes before an essential one."""

NEIGHBOURS = 12
"""Where an essential node needs no more than this many neighbours, they are not bisected."""

FEW = NEIGHBOURS + 2
"""Up to here, asking for each node is cheaper than bisecting."""


FEW_OF_A_CHAIN = 10
"""The same of nodes that lead to the one at which the framework stopped."""

IN_A_ROW = 3
"""Of few nodes, once so many in a row have stayed, the others are left to the last rounds."""

MANY = 32
"""With more nodes than this left by the bisections, the essentials are many: counter-based search."""


def keep_rare_types(subject: NodeSubject, hints: Hints) -> Search:
    """Only the nodes of rare operator types: what a bug needs is seldom what the model is full of."""
    if _leads_to_a_stop(subject, hints):
        return subject
    rare = [members for members in _by_type(subject) if len(members) <= RARE]
    if len(subject.nodes) <= FEW or not rare:
        return subject
    rarest = partial(_keep_groups, subject, rare, frozenset(range(len(rare))), link=False)
    if (yield rarest):
        found = rarest() or subject
        build = partial(_keep_groups, subject, rare, link=False)
        return (yield from over_sets(found, find_essentials(range(len(rare))), build))
    return subject


def drop_operator_types(subject: NodeSubject, hints: Hints, *, link: bool) -> Search:
    """All nodes of some operator types at once: a model has far fewer types than nodes."""
    groups = _by_type(subject)
    if _leads_to_a_stop(subject, hints):
        return subject
    if len(subject.nodes) <= FEW or len(groups) < 3 or len(groups) * 2 > len(subject.nodes):
        return subject
    search = find_essentials(range(len(groups)), patience=1, small=0)
    return (yield from over_sets(subject, search, partial(_keep_groups, subject, groups, link=link)))


def _by_type(subject: NodeSubject) -> Groups:
    """The nodes of each operator type, rare types first."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, node in enumerate(subject.nodes):
        groups.setdefault((node.domain, node.op_type), []).append(index)
    return sorted(groups.values(), key=len)


def _keep_groups(subject: NodeSubject, groups: Groups, keep: Items, *, link: bool) -> NodeSubject | None:
    nodes = frozenset(index for group in keep for index in groups[group])
    return subject.keep_nodes(nodes, link=link)


def bisect_nodes(subject: NodeSubject, hints: Hints, *, link: bool) -> Search:
    """Prefix bisection over single nodes; gives up early where essentials lie dense."""
    if len(subject.nodes) <= FEW or _leads_to_a_stop(subject, hints):
        return subject
    return (yield from _search(subject, _bisection(subject), link))


def _leads_to_a_stop(subject: NodeSubject, hints: Hints) -> bool:
    """Whether the nodes are few and all lead to one that is needed: a chain, which bisection does not cut."""
    return bool(hints.stopped_at) and len(subject.nodes) <= MANY


def drop_few_nodes(subject: NodeSubject, hints: Hints) -> Search:
    """Drop nodes one at a time if only few are left, before the moves of dims and values.

    A dropped node is bypassed by a link, or cut out if nothing can be linked. With two nodes left both are
    mostly needed; the end of the search asks for them in any case.
    """
    if not 2 < len(subject.nodes) <= (FEW_OF_A_CHAIN if hints.stopped_at else FEW):
        return subject
    search = drop_one_at_a_time(_nearest_first(subject), patience=IN_A_ROW)
    return (yield from _search(subject, search, link=True))


def drop_runs_of_nodes(subject: NodeSubject, hints: Hints) -> Search:
    """Bridge stretches of a chain that bisection has left, before the moves of dims and values."""
    if not FEW < len(subject.nodes) <= MANY:
        return subject
    order = range(len(subject.nodes))
    # of what leads to a node, the farthest is needed least
    return (yield from _search(subject, drop_runs(order[::-1] if hints.stopped_at else order), link=True))


def drop_single_nodes(subject: NodeSubject, hints: Hints, *, link: bool) -> Search:
    """Drop nodes that bisection has left: by counter-based delta debugging if many, then one at a time."""
    if len(subject.nodes) > MANY:
        return (yield from _search(subject, counter_dd(range(len(subject.nodes))), link))
    if len(subject.nodes) > 1:
        return (yield from _search(subject, drop_one_at_a_time(_nearest_first(subject)), link))
    return subject


def _nearest_first(subject: NodeSubject) -> list[int]:
    """The nodes by their steps to a result that no node reads: the farthest is needed least."""
    read = {name for reads in subject.reads for name in reads}
    found = dict.fromkeys(at for at, node in enumerate(subject.nodes) if read.isdisjoint(node.output))
    edge = list(found)
    while edge:
        above = {
            subject.producer[name] for at in edge for name in subject.reads[at] if name in subject.producer
        }
        edge = sorted(above - found.keys(), reverse=True)
        found.update(dict.fromkeys(edge))
    return [*found, *(at for at in range(len(subject.nodes)) if at not in found)]


def _search(subject: NodeSubject, search: SetSearch, link: bool) -> Search:
    return (yield from over_sets(subject, search, partial(subject.keep_nodes, link=link)))


def _bisection(subject: NodeSubject) -> SetSearch:
    near = [*(partial(_producers, subject, steps) for steps in NEAR), partial(_cone, subject)]
    patience = PATIENCE if len(subject.nodes) > MANY else 1
    return find_essentials(range(len(subject.nodes)), near, patience=patience, small=0, neighbours=NEIGHBOURS)


def _producers(subject: NodeSubject, steps: int, nodes: Items) -> Items:
    """The producers of these nodes' operands, up to this many steps away."""
    found: set[int] = set()
    edge = nodes
    for _ in range(steps):
        read = (name for index in edge for name in subject.reads[index])
        edge = frozenset(subject.producer[name] for name in read if name in subject.producer)
        found |= edge
    return frozenset(found)


def _cone(subject: NodeSubject, nodes: Items) -> Items:
    """The nodes `FAR` steps up, where an import fails of what many steps made; all where these are most."""
    found = _producers(subject, FAR, nodes)
    return found if 3 * len(found) <= max(nodes) else frozenset(range(len(subject.nodes)))


def drop_passes(subject: Subject, hints: Hints) -> Search:
    """Drop what the failure does not take; where a pass would miss one before it the backend refuses both."""
    count = len(subject.passes)
    if not count:
        return subject
    return (yield from over_sets(subject, nothing_or(fewest_in_full(count)), partial(_keep_passes, subject)))


def _keep_passes(subject: Subject, keep: Items) -> Subject:
    return replace(subject, passes=tuple(name for at, name in enumerate(subject.passes) if at in keep))


FEW_OUTPUTS = 3
"""Up to here, asking for each output is cheaper than bisecting."""


def drop_outputs(subject: NodeSubject, hints: Hints) -> Search:
    """Keep as few outputs as will do; a node that then makes nothing of use goes too."""
    count = len(subject.graph_outputs)
    if count < 2:
        return subject
    return (yield from over_sets(subject, fewest(count, FEW_OUTPUTS), partial(_keep_outputs, subject)))


def _keep_outputs(subject: NodeSubject, keep: Items) -> NodeSubject | None:
    names = [name for index, name in enumerate(subject.graph_outputs) if index in keep]
    wanted, live = set(names), []
    for index in range(len(subject.nodes) - 1, -1, -1):
        if not wanted.isdisjoint(subject.nodes[index].output):
            wanted.update(subject.reads[index])
            live.append(subject.nodes[index])
    return subject.assemble(live[::-1], names)


def drop_many_outputs(subject: NodeSubject, hints: Hints) -> Search:
    """Drop outputs if there are many, before the moves of dims and values."""
    if len(subject.graph_outputs) <= FEW_OUTPUTS:
        return subject
    return (yield from drop_outputs(subject, hints))


def _of_nodes(
    name: str, order: int, search: Callable[..., Search], *, link: bool, **facts: Any
) -> Move[NodeSubject]:
    """A move that removes nodes by link or by cut; values that were recorded are stale after a link."""
    way = "link" if link else "cut"
    return Move(f"{name} by {way}", order, partial(search, link=link), reshapes=link, on=NodeSubject, **facts)


MOVES = (
    Move("keep rare operator types", 200, keep_rare_types, once=True, on=NodeSubject),
    _of_nodes("bisect nodes", 205, bisect_nodes, link=False, settles=True, chance=0.25),
    _of_nodes("drop operator types", 210, drop_operator_types, link=False, settles=True, chance=0.25),
    _of_nodes("drop operator types", 220, drop_operator_types, link=True, settles=True),
    _of_nodes("bisect nodes", 230, bisect_nodes, link=True, settles=True, chance=0.25),
    Move("drop runs of nodes by link", 235, drop_runs_of_nodes, reshapes=True, chance=0.25, on=NodeSubject),
    Move(
        "drop single nodes of few by link",
        240,
        drop_few_nodes,
        reshapes=True,
        settles=True,
        chance=0.25,
        once=True,
        on=NodeSubject,
    ),
    _of_nodes("drop single nodes", 605, drop_single_nodes, link=False, chance=0.1, late=True),
    _of_nodes("drop single nodes", 600, drop_single_nodes, link=True, chance=0.1, late=True),
    Move("drop passes", 250, drop_passes, on=Subject),
    Move("drop many outputs", 300, drop_many_outputs, on=NodeSubject),
    Move("drop outputs", 590, drop_outputs, chance=0.1, on=NodeSubject),
)
