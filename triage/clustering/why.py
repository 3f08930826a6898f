"""Why two failures or clusters are together or apart, in words.

Furthest-point-first (Gonzalez 1985; Chen et al., "Taming compiler fuzzers", 2013) over the signatures: the
next row is the one whose nearest row so far is furthest. What is open stands before what is closed, what is
not yet known before what is, what is reduced before what is not.
"""

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rapidfuzz.distance import Indel

from corpus.errors import UserError
from oracles.naming import Signature
from triage.clustering.similarity import MERGE, RELATED, Comparison, Part, compare
from triage.store.causes import explanation_of, root_of
from triage.store.clusters import (
    BY_SYMPTOM,
    get_signature,
    home_of,
    near_clusters,
    rewrites,
    signatures_of,
)
from triage.store.database import Store
from triage.store.failures import REDUCED, get_failure
from triage.store.names import cluster_name, failure_name, find_failure, live_cluster

MOST_SPREAD = 10
"""Rows that are chosen by distance; the others follow by what they are worth alone."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cluster as the ranking sees it: smaller `worth` comes first among equally distant ones."""

    id: int
    tier: tuple[bool, ...]
    worth: tuple[int, ...]
    signature: Signature


def ranked(candidates: Iterable[Candidate]) -> list[int]:
    """The ids in the order in which to show them; the same for any order of the candidates."""
    order: list[int] = []
    by_worth = sorted(candidates, key=lambda each: (each.tier, each.worth, each.id))
    for tier in sorted({each.tier for each in by_worth}):
        order += [each.id for each in _spread([each for each in by_worth if each.tier == tier])]
    return order


def _spread(by_worth: Sequence[Candidate]) -> list[Candidate]:
    """The first, then the one furthest from all that were chosen; of equals the one that is worth more."""
    chosen, left = [*by_worth[:1]], [*by_worth[1:]]
    nearest = dict.fromkeys((each.id for each in left), 1.0)
    while left and len(chosen) < MOST_SPREAD:
        for each in left:
            near = _distance(each.signature, chosen[-1].signature)
            nearest[each.id] = min(near, nearest[each.id])
        chosen.append(max(left, key=lambda each: nearest[each.id]))
        left.remove(chosen[-1])
    return [*chosen, *left]


def _distance(one: Signature, two: Signature) -> float:
    """The clusters' distance if there is one, else the share of words that differ."""
    compared = compare(one, two)
    return Indel.normalized_distance(_words(one), _words(two)) if compared.obstacle else compared.distance


@functools.lru_cache(maxsize=1 << 12)
def _words(signature: Signature) -> tuple[str, ...]:
    return tuple(word for _, text in signature.components for word in text.split())


Related = dict[int, dict[str, str]]
"""By cluster, the names of the related ones and why they are related."""


def related_clusters(store: Store) -> Related:
    """Every pair of clusters that is worth a look, in both directions."""
    found: Related = defaultdict(dict)
    for cluster, other, distance in near_clusters(store, RELATED):
        found[cluster][cluster_name(other)] = f"signatures {distance:.2f} apart"
    _add_same_rewrite(store, found)
    return {cluster: dict(sorted(others.items())) for cluster, others in found.items()}


def _add_same_rewrite(store: Store, found: Related) -> None:
    """One minimal pass set and one set of operators, seen as an exception here and a wrong result there."""
    shown: Mapping[tuple[str, str], set[tuple[int, str]]] = defaultdict(set)
    for each in rewrites(store):
        ops = sorted(op for op in each.ops if op != "Constant")
        shown[" ".join(sorted(each.passes)), " ".join(ops)].add((each.cluster, each.outcome))
    for (rewrite, operators), seen in shown.items():
        for (cluster, outcome), (other, another) in itertools.permutations(sorted(seen), 2):
            if other != cluster and another != outcome:
                found[cluster][cluster_name(other)] = f"{rewrite} on {operators}, seen as {another}"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared: a failure with its signature, or a cluster with all of its own."""

    name: str
    cluster: int
    signatures: tuple[Signature, ...]
    is_reduced: bool


def why(store: Store, first: str, second: str) -> dict[str, Any]:
    """The closest pair of signatures of two names, part by part, and what follows from it."""
    one, two = _side(store, first), _side(store, second)
    pairs = [(compare(a, b), a, b) for a in one.signatures for b in two.signatures]
    compared, a, b = min(pairs, key=lambda pair: pair[0].distance)
    average = sum(pair[0].distance for pair in pairs) / len(pairs)
    together = one.cluster == two.cluster
    sentences = [*_verdict(store, one, two, compared, average, together), *_parts(compared)]
    homes = [home_of(store, each.digest) for each in (a, b)]
    if all(home is not None and home.pinned for home in homes):
        sentences.append("A merge or split by command holds them.")
    sentences += [sentence for side in (one, two) for sentence in _cause(store, side.name)]
    if not together:
        reason = related_clusters(store).get(one.cluster, {}).get(cluster_name(two.cluster))
        sentences += [f"Offered as related: {reason}."] if reason else []
    return {
        "together": together,
        "first": one.name,
        "second": two.name,
        "distance": round(compared.distance, 4),
        "average": round(average, 4),
        "words": sentences,
    }


def _side(store: Store, text: str) -> Side:
    failure = find_failure(store, text)
    if failure is None:
        cluster = live_cluster(store, text)
        return _cluster_side(store, text, cluster)
    found = get_failure(store, failure)
    signature = get_signature(store, found.signature)
    return Side(found.name, found.cluster, (signature,), found.status == REDUCED)


def _cluster_side(store: Store, text: str, cluster: int) -> Side:
    every = signatures_of(store, cluster)
    reduced = [each.signature for each in every if each.how != BY_SYMPTOM]
    known = tuple(reduced or (each.signature for each in every))
    if not known:
        raise UserError(f"{text}: a cluster without a signature")
    merged = text.upper() != cluster_name(cluster)
    name = f"{text.upper()}, merged into {cluster_name(cluster)}," if merged else cluster_name(cluster)
    return Side(name, cluster, known, bool(reduced))


def _verdict(
    store: Store, one: Side, two: Side, compared: Comparison, average: float, together: bool
) -> list[str]:
    place = f"together in {cluster_name(one.cluster)}" if together else "apart"
    both = f"{one.name} and {two.name} are {place}"
    waiting = [
        side.name for side in (one, two) if not side.is_reduced and not _is_explained(store, side.name)
    ]
    if one.is_reduced != two.is_reduced:
        until = "is not reduced yet: it stands with the failures of its symptom until it is."
        return [f"{both}.", *(f"{name} {until}" for name in waiting)]
    if compared.distance == 0:
        return [f"{both}: they have an equal signature."]
    if compared.obstacle:
        return [f"{both}: {compared.obstacle}."]
    several = f", {average:.2f} on average" if round(average, 4) != round(compared.distance, 4) else ""
    most = max(compared.parts, key=lambda part: part.weight * part.distance)
    told = f"another {NAMES.get(most.name, most.name)}, " if not together else ""
    return [
        f"{both}: {told}{compared.distance:.2f} from each other{several}; up to {MERGE} is one bug,"
        f" up to {RELATED} is related."
    ]


NAMES = {
    "ops": "set of operators",
    "op": "operator",
    "kind": "kind of difference",
    "dtypes": "set of types",
    "passes": "set of passes",
}
"""What parts of a signature are called beside their own names."""


def _is_explained(store: Store, name: str) -> bool:
    number = find_failure(store, name)
    return number is not None and explanation_of(store, number) is not None


def _cause(store: Store, name: str) -> list[str]:
    """What a failure follows from or is explained by, with the checks that decided; nothing of a cluster."""
    number = find_failure(store, name)
    if number is None:
        return []
    told = []
    root, explained = root_of(store, number), explanation_of(store, number)
    if root:
        told.append(
            f"{name} is a face of {failure_name(root['root'])} ({_number_of(root['checks'])}): {root['why']}."
        )
    if explained:
        bug, checks = failure_name(explained["bug"]), int(explained["checks"])
        and_yet = "" if get_failure(store, number).status == REDUCED else ", and was not reduced"
        told.append(f"{name} is explained by {bug} ({_number_of(checks)}){and_yet}: {explained['why']}.")
    return told


def _number_of(checks: int) -> str:
    return {0: "no check", 1: "one check"}.get(checks, f"{checks} checks")


def _parts(compared: Comparison) -> list[str]:
    """A line for each part, what differs most first."""
    ordered = sorted(compared.parts, key=lambda part: -part.weight * part.distance)
    return [_part(each) for each in ordered]


def _part(part: Part) -> str:
    name = NAMES.get(part.name, part.name)
    if part.distance == 0:
        return f"The same {name}: {part.first or 'none'}."
    adds = part.weight * part.distance
    return f"Another {name}, which adds {adds:.2f}: {part.first or 'none'} / {part.second or 'none'}."
