"""What persons decide about clusters: merge, split, rename, mark. Each is one transaction and one event.

Signatures of merged and split clusters are pinned: similarity never moves them again.
"""

from __future__ import annotations

from dataclasses import dataclass

from corpus.errors import UserError
from triage.store.clusters import (
    BY_PERSON,
    BY_SYMPTOM,
    FIXED,
    LIMIT,
    NEW,
    Cluster,
    absorb,
    get_cluster,
    open_cluster,
    pin,
    rehome,
    set_status,
    set_title_for_good,
    signatures_of,
)
from triage.store.database import Store
from triage.store.failures import title_of_signature
from triage.store.names import cluster_name, live_cluster


@dataclass(frozen=True, slots=True)
class Mark:
    """A state that a person gives a cluster, and the reason that it requires, if any."""

    name: str
    needs: str = ""


MARKS = (
    Mark("filed", "URL"),
    Mark(FIXED, "VERSION"),
    Mark("wontfix"),
    Mark("invalid"),
    Mark("duplicate", "OF"),
    Mark(NEW),
)
CLOSED = ("wontfix", "invalid", "duplicate", FIXED, LIMIT)


def merge(store: Store, kept: int, gone: int, because: str = "") -> Cluster:
    """Let one cluster take in another, for good; `because` is the person's reason."""
    if kept == gone:
        raise UserError(f"{cluster_name(kept)}: already one cluster")
    with store.transaction():
        absorb(store, gone, kept, _reason("by command", because))
        pin(store, kept)
    return get_cluster(store, kept)


def split(store: Store, cluster: int, digest: str, because: str = "") -> Cluster:
    """Give a signature and its failures a cluster of their own, for good; `because` is the reason."""
    named = [each.signature.digest for each in signatures_of(store, cluster) if each.how != BY_SYMPTOM]
    found = [each for each in named if each.startswith(digest)]
    if len(found) != 1:
        one_of = ", ".join(named) or "none, since nothing of it is reduced"
        raise UserError(f"{digest}: not one signature of {cluster_name(cluster)}; it has {one_of}")
    if len(named) == 1:
        raise UserError(f"{digest}: the only signature of {cluster_name(cluster)}; there is nothing to split")
    with store.transaction():
        title = title_of_signature(store, found[0]) or get_cluster(store, cluster).title
        made = open_cluster(store, title)
        why = _reason(f"split from {cluster_name(cluster)} by command", because)
        rehome(store, found[0], made, BY_PERSON, 1.0, why)
        pin(store, cluster)
        pin(store, made)
        store.log(
            "split", cluster_name(cluster), signature=found[0], into=cluster_name(made), because=because
        )
    return get_cluster(store, made)


def _reason(what: str, because: str) -> str:
    return f"{what}: {because}" if because else what


def rename(store: Store, cluster: int, title: str) -> Cluster:
    """Give a cluster a title that no later failure changes."""
    title = " ".join(title.split())
    if not title:
        raise UserError("the new title is empty")
    with store.transaction():
        old = get_cluster(store, cluster).title
        set_title_for_good(store, cluster, title)
        store.log("renamed", cluster_name(cluster), old=old, new=title)
    return get_cluster(store, cluster)


def mark(store: Store, cluster: int, state: str, value: str = "") -> Cluster:
    """Say what has become of a cluster; `fixed` with a release lets it regress when it shows again."""
    note = _note(store, cluster, state, value)
    with store.transaction():
        old = get_cluster(store, cluster)
        set_status(store, cluster, state, note)
        store.log("marked", cluster_name(cluster), old=old.status, new=state, note=note)
    return get_cluster(store, cluster)


def _note(store: Store, cluster: int, state: str, value: str) -> str:
    wanted = next((each for each in MARKS if each.name == state), None)
    if wanted is None:
        every = ", ".join(f"{each.name} {each.needs}".strip() for each in MARKS)
        raise UserError(f"{state}: no such mark; there are {every}")
    if bool(wanted.needs) != bool(value):
        told = (
            f"needs its {wanted.needs}" if wanted.needs else f"takes nothing more than the mark, not {value}"
        )
        raise UserError(f"{state}: {told}")
    if state != "duplicate":
        return value
    of = live_cluster(store, value)
    if of == cluster:
        raise UserError(f"{cluster_name(cluster)}: cannot be a duplicate of itself")
    return cluster_name(of)
