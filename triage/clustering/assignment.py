"""Which cluster a failure belongs to, decided as it comes in.

Level 1 is exact: failures of equal signature are in one cluster at once. An un-reduced failure only has a
provisional signature, of its symptom or of its sketch (`triage.reductions.sketch`); the first reduced one
names the cluster that this opened. Level 2 puts distinct signatures of reduced failures together that are
similar, and distinct sketches (`triage.clustering.grouping`).
"""

from __future__ import annotations

from corpus.case import Case
from corpus.release import is_before
from oracles.naming.signature import Signature
from oracles.verdict import Verdict
from triage.clustering.grouping import place
from triage.clustering.similarity import group_of
from triage.store.clusters import (
    BY_SIGNATURE,
    BY_SIMILARITY,
    BY_SYMPTOM,
    FIXED,
    REGRESSED,
    attach,
    get_cluster,
    home_of,
    is_named,
    keep_signature,
    open_cluster,
    set_how,
    set_status,
    set_title,
)
from triage.store.database import Store
from triage.store.names import cluster_name


def by_symptom(case: Case, verdict: Verdict) -> Signature:
    """Return a failure's signature before its reduction: its symptom on its backend."""
    backend = case.target.backend if case.target else ""
    return Signature.of(("backend", backend), ("symptom before reduction", str(verdict.symptom)))


def assign(
    store: Store, signature: Signature, title: str, *, reduced: bool, inside: int | None = None
) -> int:
    """Return the cluster of a signature, made when it is new; must run inside a transaction.

    `inside` is the cluster in which the failure stands until now: a first reduced signature attaches to it.
    """
    known = home_of(store, signature.digest)
    if known is not None:
        if reduced and known.how == BY_SYMPTOM:
            set_how(store, signature.digest, BY_SIGNATURE)
        return known.cluster
    keep_signature(store, signature, " ".join(group_of(signature) or ()))
    near = place(store, signature)
    if near is not None:
        how = BY_SIMILARITY if reduced else BY_SYMPTOM
        attach(store, signature.digest, near.cluster, how, near.score, near.why)
        return near.cluster
    cluster, why = _own_cluster(store, title, inside if reduced else None)
    attach(store, signature.digest, cluster, BY_SIGNATURE if reduced else BY_SYMPTOM, 1.0, why)
    return cluster


def _own_cluster(store: Store, title: str, inside: int | None) -> tuple[int, str]:
    """A cluster for a signature that is like no other: that of its symptom while no other one named it."""
    if inside is None or is_named(store, inside):
        return open_cluster(store, title), "a signature not seen before"
    set_title(store, inside, title)
    return inside, "the first reduced failure of its symptom"


def note_sighting(store: Store, number: int, release: str = "") -> None:
    """A failure showed in a cluster: one that was fixed has *regressed*, unless on an older release."""
    cluster = get_cluster(store, number)
    if cluster.status != FIXED or (release and is_before(release, cluster.note)):
        return
    set_status(store, number, REGRESSED, cluster.note)
    store.log("regressed", cluster_name(number), fixed=cluster.note, release=release)
