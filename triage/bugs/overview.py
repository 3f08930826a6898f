"""The clusters of a store as documents, in the order in which to look at them.

Nothing here reads every failure: counts are kept as failures come, and of many failures a cluster shows some.

`crux hunt`, `crux triage` and the page say the same, since all of them ask here.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from corpus.target import is_before
from triage.bugs.known import NOT_FILED, KnownIssue, known_issue
from triage.clustering.grouping import CLOSED
from triage.clustering.why import Candidate, ranked, related_clusters
from triage.console.options import CaseOptions, StoreOptions, next_command
from triage.projects import project_of
from triage.store.artifacts import LastReport, last_reports, newest_noted
from triage.store.causes import explained_in, manifestations_of
from triage.store.clusters import (
    BY_SYMPTOM,
    FIXED,
    LIMIT,
    NEW,
    REGRESSED,
    Alias,
    Cluster,
    Counts,
    clusters,
    counts_of_clusters,
    first_failures,
    remarks_of,
    signatures_by_cluster,
)
from triage.store.database import ADVICE, Store

Document = dict[str, Any]
MOST_LISTED = 10_000
"""Up to this many failures all are listed; of more, the first ones of every cluster."""
FEWEST_LISTED = 5


def overview(
    store: Store, issues: tuple[KnownIssue, ...] = (), only: Collection[int] | None = None
) -> list[Document]:
    """One document for each cluster that has failures (of `only` these), the most different ones first.

    A cluster whose known issue says so is left out, unless it is asked for.
    """
    counts, remarks = counts_of_clusters(store), remarks_of(store)
    signatures = signatures_by_cluster(store)
    every = sum(each.failures for each in counts.values())
    most = every if every <= MOST_LISTED else max(FEWEST_LISTED, MOST_LISTED // len(counts))
    failures = first_failures(store, most)
    related = related_clusters(store)
    suppressed = {issue.id for issue in issues if issue.suppress}
    documents, candidates = {}, []
    for cluster in clusters(store):
        if cluster.id in counts and (only is None or cluster.id in only):
            document = _document(cluster, counts[cluster.id], signatures[cluster.id], issues)
            if only is None and document["known"] in suppressed:
                continue
            said = remarks.get(cluster.name, {"assignee": "", "notes": []})
            documents[cluster.id] = (
                document
                | said
                | {
                    "failures": failures[cluster.id],
                    "related": related.get(cluster.id, {}),
                    "faces": manifestations_of(store, cluster.id),
                    "explained": explained_in(store, cluster.id),
                }
            )
            candidates.append(_candidate(documents[cluster.id], cluster, signatures[cluster.id]))
    return [documents[each] for each in ranked(candidates)]


def _document(
    cluster: Cluster, counts: Counts, aliases: Sequence[Alias], issues: tuple[KnownIssue, ...]
) -> Document:
    known = known_issue(issues, [each.signature for each in aliases], counts.releases)
    return {
        "id": cluster.name,
        "title": cluster.title,
        "status": cluster.status,
        "package": _package(aliases),
        "signatures": [each.signature.digest for each in aliases],
        "count": counts.failures,
        "reduced": counts.reduced,
        "note": cluster.note,
        "known": known.id if known else "",
        "issue": known.issue if known else "",
    }


def _package(aliases: Sequence[Alias]) -> str:
    """The package that has the bug, as its project is installed; empty where it is no project's."""
    backends = (dict(each.signature.components).get("backend", "") for each in aliases)
    return next((project_of(backend).package for backend in backends), "")


def _candidate(document: Document, cluster: Cluster, aliases: Sequence[Alias]) -> Candidate:
    if not aliases:
        raise UserError(f"{cluster.name}: has no signature; {ADVICE}")
    best = next((each for each in aliases if each.how != BY_SYMPTOM), aliases[0])
    tier = (cluster.status in CLOSED, is_filed(document), not document["reduced"])
    return Candidate(cluster.id, tier, (-document["reduced"], -document["count"]), best.signature)


Summary = Mapping[str, Any]
READY, UNREPORTED, KNOWN, UNREDUCED = "ready", "new", "known", "not reduced"
FIXED_IN = "fixed in "
"""What the state of a bug begins with that shows no more on the newest release, which follows."""
COUNTED = {
    REGRESSED: "regressed",
    READY: "new and ready",
    UNREPORTED: "new",
    UNREDUCED: "not reduced yet",
    KNOWN: "known",
    LIMIT: "limits",
}
"""The words of a count, in the order in which to look at them; other states follow by their own names."""
TO_FILE, TO_REDUCE, FIXED_LIST, LIMITS, CLOSED_LIST = "to file", "to reduce", "fixed", "limits", "closed"
LISTS = {
    **dict.fromkeys((REGRESSED, READY, UNREPORTED), TO_FILE),
    UNREDUCED: TO_REDUCE,
    **dict.fromkeys((KNOWN, "filed", "duplicate"), KNOWN),
    FIXED: FIXED_LIST,
    LIMIT: LIMITS,
}
"""The list in which a bug of a state stands; `closed` for what a person decided otherwise."""
ORDER = (TO_FILE, TO_REDUCE, KNOWN, FIXED_LIST, LIMITS, CLOSED_LIST)
MOST_NAMED = 3


def overview_with_states(
    store: Store, issues: tuple[KnownIssue, ...] = (), only: Any = None
) -> list[dict[str, Any]]:
    """The overview's documents by list, each with its `state`, its `list` and its last `report`.

    `hunt`, `triage`, the monitor and the pages show these and no other states and counts.
    """
    reports = last_reports(store)
    found = []
    for document in overview(store, issues, only):
        report = reports.get(document["id"], LastReport())
        newest = newest_noted(store, document["package"])
        is_outdated = bool(report.folder and newest) and is_before(report.newest or "0", newest)
        state = state_of(document, report, is_outdated=is_outdated)
        facts = {"state": state, "list": list_of(state), "report": report.folder, "outdated": is_outdated}
        found.append({**document, **facts})
    return sorted(found, key=lambda each: ORDER.index(each["list"]))


def state_of(document: Summary, report: LastReport, *, is_outdated: bool = False) -> str:
    """A bug's state in a word; a person's decision comes first.

    A report that has not tried the newest release is outdated, and does not make a bug ready.
    """
    if document["status"] != NEW:
        return str(document["status"])
    if report.fixed:
        return FIXED_IN + report.fixed
    if is_filed(document):
        return KNOWN
    if not document["reduced"]:
        return UNREDUCED
    return READY if report.ready and not is_outdated else UNREPORTED


def list_of(state: str) -> str:
    """The list in which a bug of that state stands."""
    return FIXED_LIST if state.startswith(FIXED_IN) else LISTS.get(state, CLOSED_LIST)


def is_filed(document: Summary) -> bool:
    """Whether a bug is a known issue of which there is a thread; one that nobody has filed is to file."""
    return bool(document["known"]) and document["issue"] != NOT_FILED


@dataclass(frozen=True)
class Total:
    """One figure of a list: how many bugs are in that state."""

    state: str
    words: str
    count: int


def totals_of(states: Iterable[str]) -> tuple[Total, ...]:
    """The count of each state that occurs, in the order in which to look at them."""
    found = Counter(states)
    order = [*COUNTED, *sorted(found.keys() - COUNTED.keys())]
    return tuple(Total(state, COUNTED.get(state, state), found[state]) for state in order if found[state])


def counted(states: Iterable[str]) -> str:
    """Count states in words, such as `13 bugs: 5 new and ready, 2 known, 6 not reduced yet`."""
    totals = totals_of(states)
    total = sum(each.count for each in totals)
    parts = [f"{each.count} {each.words}" for each in totals]
    return f"{total} bug{'' if total == 1 else 's'}{': ' if parts else ''}{', '.join(parts)}"


def next_step(documents: Sequence[Summary], options: StoreOptions, known: str = "") -> str:
    """The command to give next, with the options of this one; `known` are more known issues."""
    if isinstance(options, CaseOptions):  # a failure has its own target; seeds go on where they stopped
        options = replace(options, target=None, seed=None)
    by_state = {state: [each for each in documents if each["state"] == state] for state in COUNTED}
    if by_state[UNREDUCED]:
        return next_command("reduce --all", options)
    if waiting := [*by_state[REGRESSED], *by_state[UNREPORTED]]:
        names = [str(each["id"]) for each in waiting if not each["report"] or each["outdated"]]
        if names:
            return next_command(f"report {' '.join(names[:MOST_NAMED])}", options, known=known)
    if ready := by_state[READY]:
        first = ready[0]
        then = next_command(f"triage mark {first['id']} filed URL", StoreOptions(options.db))
        return f"file {_near(first['report'])}/issue.md, then: {then}"
    return next_command("hunt", options, known=known)


def _near(folder: str) -> str:
    """The folder as seen from here, where it lies below."""
    path = Path(folder)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else folder


def in_a_line(documents: Sequence[Summary], options: StoreOptions, known: str = "") -> str:
    """The count and the next step, as every list of bugs ends."""
    return f"{counted(each['state'] for each in documents)}; next: {next_step(documents, options, known)}"
