"""Coverage of a target's own code in the store: which blocks were met, by file and pass, and over time."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from triage.store.database import Store, now


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
