"""The last look: every subset of few nodes, with every choice of what flows into it where it is cut.

A failure need not be monotone: two nodes may have to go together. Where a set of nodes reads what none of
them makes, an input, a constant, or another tensor of the type may stand. Subsets asked before cost nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations, islice, product

from reducer.move import Hints, Move, Search, first_smaller
from reducer.search import Items
from reducer.subject.onnx.nodesets import assemble, rename_reads
from reducer.subject.onnx.subject import OnnxSubject

MOST_NODES = 8
"""A graph of more nodes has too many subsets."""

LEAST_NODES = 4
"""Of fewer nodes the moves before have asked for nearly every subset."""

USUAL = 12
"""So many candidates are asked for, fewest nodes first; a thorough reduction asks for all."""

MOST_CHOICES = 256
"""So many ways to feed one subset are looked at."""

MOST_LOOKED_AT = 400
"""So many candidates are made, most of which are no valid models; a thorough reduction makes all."""


def look_at_subsets(subject: OnnxSubject, hints: Hints) -> Search:
    """The first subset that fails, fewest nodes first."""
    count = len(subject.nodes)
    if not (2 if hints.is_thorough else LEAST_NODES) <= count <= MOST_NODES:
        return subject
    every = (proposal for keep in subsets(subject) for proposal in proposals(subject, keep))
    if hints.is_thorough:
        return (yield from first_smaller(subject, every))
    return (yield from first_smaller(subject, islice(every, MOST_LOOKED_AT), min(USUAL, hints.looks)))


def subsets(subject: OnnxSubject) -> Iterator[Items]:
    """Proper subsets, fewest nodes first; of one size first those that hang together.

    These are connected in the subject, or by what stands between their nodes.
    """
    count = len(subject.nodes)
    for length in range(1, count):
        sets = [frozenset(chosen) for chosen in combinations(range(count), length)]
        together = [keep for keep in sets if _hangs_together(subject, keep)]
        yield from together
        yield from (keep for keep in sets if keep not in together)


def proposals(subject: OnnxSubject, keep: Items) -> Iterator[Callable[[], OnnxSubject | None]]:
    """Yield the subset with every choice at each tensor that it reads and does not make."""
    made = {name for index in keep for name in subject.nodes[index].output if name}
    read = dict.fromkeys(name for index in sorted(keep) for name in subject.reads[index])
    cut = [name for name in read if name not in made and name in subject.producer]
    ways = [[(name, way) for way in _ways(subject, keep, name)] for name in cut]
    for chosen in islice(product(*ways), MOST_CHOICES):
        yield partial(_fed, subject, keep, dict(chosen))


def _ways(subject: OnnxSubject, keep: Items, name: str) -> Iterator[str]:
    """An input (or what was constant before), a constant, or a tensor of the type that is made earlier."""
    yield ""
    if name in subject.dynamic:
        yield name
    first = min(index for index in keep if name in subject.reads[index])
    kind = subject.kind(name)
    for index in sorted(keep, reverse=True):
        if index < first and kind is not None:
            yield from (
                other for other in subject.nodes[index].output if other and subject.kind(other) == kind
            )


def _fed(subject: OnnxSubject, keep: Items, ways: Mapping[str, str]) -> OnnxSubject | None:
    """The subset with a way for each tensor that is cut: empty for an input, itself for a constant."""
    constants = frozenset(name for name, way in ways.items() if way == name)
    instead = {name: way for name, way in ways.items() if way not in ("", name)}
    nodes = [rename_reads(subject.nodes[index], instead) for index in sorted(keep)]
    return assemble(subject, nodes, constants=constants)


def _hangs_together(subject: OnnxSubject, keep: Items) -> bool:
    """Whether one can walk between all of its nodes along tensors, over at most two nodes that are gone."""
    # The nodes that a node reads from or is read by, or with which it shares a tensor
    pairs = zip(subject.reads, subject.nodes, strict=True)
    touched = [{*reads, *filter(None, node.output)} for reads, node in pairs]
    count = range(len(subject.nodes))
    steps = {i: {j for j in count if j != i and touched[i] & touched[j]} for i in count}
    wide = dict(steps)
    for _ in range(2):
        wide = {node: near | {far for each in near for far in steps[each]} for node, near in wide.items()}
    seen, waiting = set[int](), [min(keep)]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += wide[node] & keep
    return seen == keep


_NAME = "look at every subset of few nodes"
MOVES = (Move(_NAME, 615, look_at_subsets, reshapes=True, late=True, chance=0.05, on=OnnxSubject),)
