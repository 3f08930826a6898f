"""What watched releases showed of cases: kept, so that the next release is compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from triage.store.database import Store, dump, now, parsed


@dataclass(frozen=True, slots=True)
class WatchedRow:
    """One case on one release: what became of it, what was seen, and the bug's name as JSON of components."""

    subject: str
    case_id: str
    change: str
    outcome: str
    phase: str
    kind: str
    symptom: str
    title: str
    version: int
    components: str


def keep_watch(
    store: Store, package: str, release: str, counts: Mapping[str, int], rows: Iterable[WatchedRow]
) -> int:
    """Keep what a release of a package showed; the number of the watch. `counts` are cases by change."""
    with store.transaction():
        values = {"package": package, "release": release, "watched": now(), "counts": dump(dict(counts))}
        watch = store.insert("watches", values)
        for row in rows:
            store.insert("watched_cases", {"watch": watch, **{name: getattr(row, name) for name in _NAMES}})
        store.log("watched", package, release=release, **counts)
    return watch


def watched_releases(store: Store, package: str) -> list[str]:
    """The releases of a package that were watched, in the order in which they were."""
    rows = store.rows("SELECT release FROM watches WHERE package = ? ORDER BY id", (package,))
    return list(dict.fromkeys(str(row["release"]) for row in rows))


def watched_case(store: Store, package: str, case_id: str) -> list[tuple[str, WatchedRow]]:
    """List what was kept of a case by release, the latest watch of a release last."""
    columns = ", ".join(f"watched_cases.{name}" for name in _NAMES)
    rows = store.rows(
        f"""SELECT release, {columns} FROM watched_cases JOIN watches ON watches.id = watch
            WHERE package = ? AND case_id = ? ORDER BY watches.id""",
        (package, case_id),
    )
    return [(str(row.pop("release")), WatchedRow(**row)) for row in rows]


def components_of(text: str) -> tuple[tuple[str, str], ...]:
    """The components of a signature from their JSON."""
    found = parsed(text, [[str]], "a signature")
    return tuple((each[0], each[1]) for each in found if len(each) == 2)


_NAMES = tuple(WatchedRow.__dataclass_fields__)
