"""Level 2 as failures come in: a new signature is compared with its kind, its neighbours are settled.

Which signatures are together is a function of the set of signatures and of what persons decided, never of
the order in which they came: only ids are. A cluster lies within one neighbourhood (what chains of distances
within the cut join), since two groups that join have at least one pair within the cut.

Level 1 is exact: failures of equal signature are in one cluster at once. An un-reduced failure only has a
provisional signature, of its symptom or of its sketch (`triage.commands.check`); the first reduced one
names the cluster that this opened. Level 2 puts distinct signatures of reduced failures together that are
similar, and distinct sketches (`triage.clustering.grouping`).

Signatures of merged and split clusters are pinned: similarity never moves them again.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from corpus.case import Case
from corpus.errors import UserError
from corpus.target import is_before
from oracles.failure_text import as_written, crashed_function
from oracles.naming import Signature, signature_of_text
from oracles.normalise import template
from oracles.verdict import Verdict
from triage.clustering.linkage import average_linkage
from triage.clustering.similarity import MERGE, RELATED, compare, group_of
from triage.store.clusters import (
    BY_PERSON,
    BY_SIGNATURE,
    BY_SIMILARITY,
    BY_SYMPTOM,
    FIXED,
    LIMIT,
    NEW,
    REGRESSED,
    Cluster,
    absorb,
    attach,
    get_cluster,
    get_signature,
    home_of,
    homes_of,
    is_named,
    keep_distance,
    keep_signature,
    kept_distance,
    name_by,
    neighbours,
    open_cluster,
    pin,
    rehome,
    same_kind,
    set_status,
    set_title,
    set_title_for_good,
    signatures_of,
)
from triage.store.database import Store
from triage.store.failures import title_of_signature
from triage.store.names import cluster_name, live_cluster


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster to which a new signature belongs, with the score and the reason."""

    cluster: int
    score: float
    why: str


def place(store: Store, signature: Signature) -> Place | None:
    """Settle the neighbours of a signature that has no cluster yet; None where it opens one of its own."""
    near = _neighbours(store, signature)
    if near == {signature.digest}:
        return None
    settled = settle(store, near)
    group = next(group for group in settled if signature.digest in group)
    others = [digest for digest in group if digest != signature.digest]
    if not others:
        return None
    nearest = min(others, key=lambda digest: (_distance(store, signature.digest, digest), digest))
    distance = _distance(store, signature.digest, nearest)
    return Place(settled[group], round(1 - distance, 4), f"{distance:.2f} from {nearest}, within {MERGE}")


def regroup(store: Store, signature: Signature) -> None:
    """Compare a signature that came with its cluster, from another database, and settle its neighbours."""
    near = _neighbours(store, signature)
    if len(near) > 1:
        settle(store, near)


def _neighbours(store: Store, signature: Signature) -> frozenset[str]:
    """The signatures that chains of distances within the cut join with this one, and itself."""
    _keep_distances(store, signature)
    return neighbours(store, signature.digest, MERGE)


def settle(store: Store, near: frozenset[str]) -> dict[tuple[str, ...], int]:
    """Group signatures and bring the clusters into line: the cluster of each group."""
    homes, pins = _homes(store, near)
    groups = average_linkage(near, functools.partial(_distance, store), MERGE, pins)
    owned = _owned(groups, homes)
    settled = {}
    for group in groups:
        known = [digest for digest in group if digest in homes]
        if known:
            settled[group] = min(owned[group], default=0) or open_cluster(
                store, title_of_signature(store, known[0]) or known[0]
            )
            _gather(store, [each for each in known if homes[each] != settled[group]], settled[group])
        else:
            settled[group] = 0
    return settled


def _keep_distances(store: Store, signature: Signature) -> None:
    """Note the signatures of the same kind and version that are near, in both directions."""
    for other in same_kind(store, signature.digest):
        distance = compare(signature, other).distance
        if distance <= RELATED:
            keep_distance(store, signature.digest, other.digest, distance)


def _distance(store: Store, first: str, second: str) -> float:
    """The distance of two signatures: the noted one where they are near."""
    kept = kept_distance(store, first, second)
    if kept is not None:
        return kept
    return compare(get_signature(store, first), get_signature(store, second)).distance


def _homes(store: Store, near: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
    """The clusters of the signatures, oldest first; and those that a person has pinned."""
    homes = homes_of(store, near)
    pins = {digest: home.cluster for digest, home in homes.items() if home.pinned}
    return {digest: home.cluster for digest, home in homes.items()}, pins


def _owned(groups: Iterable[tuple[str, ...]], homes: Mapping[str, int]) -> dict[tuple[str, ...], list[int]]:
    """The cluster that each group keeps: the one that holds its oldest signature."""
    firsts: dict[int, str] = {}
    for digest, cluster in homes.items():
        firsts.setdefault(cluster, digest)
    return {group: [each for each, first in firsts.items() if first in group] for group in groups}


def _gather(store: Store, strays: Iterable[str], cluster: int) -> None:
    """Bring signatures into a cluster; one that thereby loses its last is taken in whole, symptoms too."""
    for digest in strays:
        home = home_of(store, digest)
        assert home is not None
        why = f"on average within {MERGE} of the cluster's signatures"
        how = BY_SYMPTOM if home.how == BY_SYMPTOM else BY_SIMILARITY
        rehome(store, digest, cluster, how, 1 - MERGE, why)
        if not is_named(store, home.cluster):
            absorb(store, home.cluster, cluster, why)


BEFORE_REDUCTION = "symptom before reduction"
"""The component that stands for all others until a failure is reduced."""


def by_symptom(case: Case, verdict: Verdict) -> Signature:
    """A failure's signature before its reduction: its symptom on its backend."""
    backend = case.target.backend if case.target else ""
    return Signature.of(("backend", backend), (BEFORE_REDUCTION, str(verdict.symptom)))


def assign(
    store: Store, signature: Signature, title: str, *, reduced: bool, inside: int | None = None
) -> int:
    """The cluster of a signature, made when it is new; must run inside a transaction.

    `inside` is the cluster in which the failure stands until now: a first reduced signature attaches to it.
    """
    known, kind = home_of(store, signature.digest), " ".join(group_of(signature) or ())
    if known is not None:
        if reduced and known.how == BY_SYMPTOM:
            name_by(store, signature.digest, kind)
        return known.cluster
    keep_signature(store, signature, kind)
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


def record_release_result(store: Store, number: int, release: str = "") -> None:
    """A failure showed in a cluster: one that was fixed has *regressed*, unless on an older release."""
    cluster = get_cluster(store, number)
    if cluster.status != FIXED or (release and is_before(release, cluster.note)):
        return
    set_status(store, number, REGRESSED, cluster.note)
    store.log("regressed", cluster_name(number), fixed=cluster.note, release=release)


MARKS = {"filed": "URL", FIXED: "VERSION", "wontfix": "", "invalid": "", "duplicate": "OF", NEW: ""}
"""The states that a person gives a cluster, and the reason that each requires, if any."""
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
    if state not in MARKS:
        every = ", ".join(" ".join(each).strip() for each in MARKS.items())
        raise UserError(f"{state}: no such mark; there are {every}")
    needs = MARKS[state]
    if bool(needs) != bool(value):
        told = f"needs its {needs}" if needs else f"takes nothing more than the mark, not {value}"
        raise UserError(f"{state}: {told}")
    if state != "duplicate":
        return value
    of = live_cluster(store, value)
    if of == cluster:
        raise UserError(f"{cluster_name(cluster)}: cannot be a duplicate of itself")
    return cluster_name(of)


_FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+),? in (\S+)', re.M)
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d")
_GENERATED = re.compile(r"[a-z0-9]{24,}\.py")
_LAST_WORDS = re.compile(
    r"^(?:.*(?:what\(\):|LLVM ERROR:|Check failed:|Assertion `)|"
    r"(?:free|malloc|realloc|munmap_chunk)\w*\(\):|double free|corrupted ).*$",
    re.M,
)
_NO_TRACES = (".md", ".json", ".onnx", ".npz")
MOST_BYTES = 4 << 20


def read_traces(folder: Path) -> dict[str, str]:
    """The texts in a folder, by file name; raises `UserError` where there are none."""
    if not folder.is_dir():
        raise UserError(f"{folder}: not a folder; name one that holds trace texts")
    visible = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    found = sorted(path for path in visible if path.suffix not in _NO_TRACES)
    if not found:
        raise UserError(f"{folder}: no trace texts in it; put each failure's text in a file of its own")
    return {path.name: _read(path) for path in found}


def _read(path: Path) -> str:
    """The end of a file, where a trace says what it has to say; bytes that are no UTF-8 are replaced."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - MOST_BYTES, 0))
        return file.read().decode("utf-8", "replace")


def cluster_traces(texts: Mapping[str, str]) -> dict[str, str]:
    """The cluster of each text, named after the smallest digest of the signatures in it."""
    signed = {name: trace_signature(text) for name, text in texts.items()}
    distinct = {each.digest: each for each in signed.values()}
    cluster_of = {digest: f"T{group[0]}" for group in partition(distinct) for digest in group}
    return {name: cluster_of[each.digest] for name, each in signed.items()}


def partition(signatures: Mapping[str, Signature]) -> Iterator[tuple[str, ...]]:
    """Groups of digests whose signatures are one bug."""

    @functools.cache
    def distance(one: str, two: str) -> float:
        return compare(signatures[one], signatures[two]).distance

    yield from average_linkage(signatures, distance, MERGE)


def trace_signature(text: str) -> Signature:
    """The signature of a text. A crash without a native frame is named by its caller."""
    text = as_written(text)
    found = signature_of_text(text)
    if ("outcome", "crash") not in found.components:
        return found
    caller = ("caller", "" if crashed_function(text) else "<".join(_callers(text)))
    return Signature.of(*found.components, caller, ("message", _last_words(text)))


def _last_words(text: str) -> str:
    """A process's last words: a C++ exception, a failed check, the C library's complaint."""
    found = _LAST_WORDS.findall(text)
    return template(found[-1]) if found else ""


def _callers(text: str) -> Iterator[str]:
    """Yield the frames of the user's own code, innermost first; not those of libraries or generated files.

    Lines count: a text that only says which signal it was is no evidence that two calls ran into one bug.
    """
    for path, line, function in _FRAME.findall(text):
        file = path.rsplit("/", 1)[-1]
        if not (_LIBRARY.search(path) or _GENERATED.fullmatch(file)):
            yield f"{file}:{line}:{function}"
