"""One honest count of a database's bugs: what each is now, how many of each, and what to do next.

`crux hunt`, `crux triage` and the page say the same, since all of them ask here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from triage.bugs.known import KnownIssue
from triage.bugs.overview import overview
from triage.store.artifacts import last_reports
from triage.store.clusters import NEW, REGRESSED
from triage.store.database import Store

Document = Mapping[str, Any]
READY, UNREPORTED, KNOWN, UNREDUCED = "ready", "new", "known", "not reduced"
COUNTED = {
    REGRESSED: "regressed",
    READY: "new and ready",
    UNREPORTED: "new",
    KNOWN: "known",
    UNREDUCED: "not reduced yet",
}
"""The words of a count, in the order in which to look at them; other states follow by their own names."""
MOST_NAMED = 3


def overview_with_states(
    store: Store, issues: tuple[KnownIssue, ...] = (), only: Any = None
) -> list[dict[str, Any]]:
    """Return the overview's documents, each with its `state` and the folder of its last `report`."""
    reports = last_reports(store)
    found = []
    for document in overview(store, issues, only):
        folder, is_ready = reports.get(document["id"], ("", False))
        state = state_of(document, is_ready)
        found.append({**document, "state": state, "report": folder})
    return found


def state_of(document: Document, is_ready: bool) -> str:
    """Return a bug's state in a word; a person's decision comes first."""
    if document["status"] != NEW:
        return str(document["status"])
    if document["known"]:
        return KNOWN
    if not document["reduced"]:
        return UNREDUCED
    return READY if is_ready else UNREPORTED


def counted(states: Iterable[str]) -> str:
    """Count states in words, such as `13 bugs: 5 new and ready, 2 known, 6 not reduced yet`."""
    found = Counter(states)
    total = sum(found.values())
    order = [*COUNTED, *sorted(found.keys() - COUNTED.keys())]
    parts = [f"{found[state]} {COUNTED.get(state, state)}" for state in order if found[state]]
    return f"{total} bug{'' if total == 1 else 's'}{': ' if parts else ''}{', '.join(parts)}"


def next_step(documents: Sequence[Document], database: Path) -> str:
    """The command to give next, for the user's database."""
    at = f" --db {quote(str(database))}" if str(database) != "crux.db" else ""
    by_state = {state: [each for each in documents if each["state"] == state] for state in COUNTED}
    if by_state[UNREDUCED]:
        return f"crux reduce --all{at}"
    if waiting := [*by_state[REGRESSED], *by_state[UNREPORTED]]:
        names = [str(each["id"]) for each in waiting if not each["report"]]
        if names:
            return f"crux report {' '.join(names[:MOST_NAMED])}{at}"
    if ready := by_state[READY]:
        first = ready[0]
        return f"file {_near(first['report'])}/issue.md, then: crux triage mark {first['id']} filed URL{at}"
    return f"crux hunt{at}"


def _near(folder: str) -> str:
    """Return the folder as seen from here, where it lies below."""
    path = Path(folder)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else folder


def in_a_line(documents: Sequence[Document], database: Path) -> str:
    """The count and the next step, as every list of bugs ends."""
    return f"{counted(each['state'] for each in documents)}; next: {next_step(documents, database)}"
