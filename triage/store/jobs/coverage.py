"""Coverage of a target's own code in the store: which blocks were met, by file and pass, and over time."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from triage.store.database import Store, dump, now, parsed


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """One build of a library: its blocks in all, and a bit for each of them that was met."""

    target: str
    build: str
    library: str
    blocks: int
    met: bytes


@dataclass(frozen=True, slots=True)
class FileRow:
    """The coverage of one source file; `pass_name` is set if it holds a pass of the optimiser."""

    library: str
    file: str
    pass_name: str
    functions: int
    functions_met: int
    blocks: int
    blocks_met: int


def load_met(store: Store, target: str, build: str) -> bytes:
    """The bits of the blocks that were met of a build; empty where none were kept."""
    row = store.row("SELECT met FROM native_libraries WHERE target = ? AND build = ?", (target, build))
    return zlib.decompress(row["met"]) if row else b""


def keep_coverage(
    store: Store, run: int, tests: int, libraries: Iterable[LibraryRow], files: Sequence[FileRow]
) -> None:
    """Keep what a target's code was met of by now, and a point of the curve of this run."""
    target = ""
    with store.transaction():
        for each in libraries:
            target = each.target
            values = (each.target, each.build, each.library, each.blocks, zlib.compress(each.met, 6))
            store.write("INSERT OR REPLACE INTO native_libraries VALUES (?, ?, ?, ?, ?)", values)
        store.write("DELETE FROM native_files WHERE target = ?", (target,))
        for row in files:
            store.insert("native_files", {"target": target, **asdict(row)})
        point = {"functions": sum(row.functions_met for row in files)}
        point["blocks"] = sum(row.blocks_met for row in files)
        store.insert("native_curve", {"run": run, "at": now(), "tests": tests, **point})


def coverage_documents(store: Store) -> list[dict[str, Any]]:
    """List each target's coverage in all, by pass and by file, those with most blocks first."""
    targets = store.rows("SELECT DISTINCT target FROM native_files ORDER BY target")
    return [_document(store, str(row["target"])) for row in targets]


def _document(store: Store, target: str) -> dict[str, Any]:
    sums = ", ".join(f"sum({name}) AS {name}" for name in _COUNTS)
    (whole,) = store.rows(f"SELECT {sums} FROM native_files WHERE target = ?", (target,))
    grouped = f"SELECT {{0}} AS name, {sums} FROM native_files WHERE target = ? {{1}} GROUP BY 1 ORDER BY"
    passes = grouped.format("pass_name", "AND pass_name != ''") + " sum(blocks) DESC, 1"
    files = grouped.format("file", "") + " sum(blocks) DESC, 1"
    curve = """SELECT native_curve.at, native_curve.tests, native_curve.functions, native_curve.blocks
               FROM native_curve JOIN runs ON runs.id = run WHERE target = ? ORDER BY native_curve.id"""
    return {
        "target": target,
        **whole,
        "passes": store.rows(passes, (target,)),
        "files": store.rows(files, (target,)),
        "curve": store.rows(curve, (target,)),
    }


_COUNTS = ("functions", "functions_met", "blocks", "blocks_met")


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
