"""Campaigns in the store: what their blocks taught, so that the next run on the target draws from it.

Each of these stays small however long a campaign is: where a run has too many rows, every other one goes.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from corpus.reading import unpack
from generators.feedback import LESSON
from oracles.native.watching import Reached
from triage.store.database import Store, dump, now, parsed

MOST_LESSON = 1 << 28
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Campaign:
    """The line of seeds of one target: the first one, and the first that no lesson tells of."""

    id: int
    first_seed: int
    next_seed: int


def start_campaign(store: Store, target: str, first_seed: int) -> Campaign:
    """A new campaign of a target."""
    with store.transaction():
        values = {"target": target, "first_seed": first_seed, "started": now()}
        return Campaign(store.insert("campaigns", values), first_seed, first_seed)


def last_campaign(store: Store, target: str) -> Campaign | None:
    """The campaign of a target that has come furthest; None where there is none."""
    row = store.row(
        """SELECT id, first_seed, coalesce(max(next_seed), first_seed) AS next_seed
           FROM campaigns LEFT JOIN lessons ON campaign = id WHERE target = ?
           GROUP BY id ORDER BY 3 DESC, id DESC LIMIT 1""",
        (target,),
    )
    return Campaign(**row) if row else None


def keep_lesson(store: Store, campaign: int, block: int, next_seed: int, document: Document) -> None:
    """Keep what a block has taught so far, and the seed after its last test."""
    store.write(
        """INSERT INTO lessons VALUES (?, ?, ?, ?) ON CONFLICT (campaign, block) DO UPDATE
           SET next_seed = excluded.next_seed, document = excluded.document""",
        (campaign, block, next_seed, _packed(document)),
    )


def keep_folded(store: Store, campaign: int, blocks: int, document: Document) -> None:
    """Keep what the first blocks taught together; their own lessons go."""
    with store.transaction():
        store.write(
            """INSERT INTO learned VALUES (?, ?, ?) ON CONFLICT (campaign) DO UPDATE
               SET blocks = excluded.blocks, document = excluded.document""",
            (campaign, blocks, _packed(document)),
        )
        store.write("DELETE FROM lessons WHERE campaign = ? AND block < ?", (campaign, blocks))


def load_folded(store: Store, campaign: int) -> tuple[int, dict[str, Any]]:
    """Load the number of folded blocks, and their common lesson."""
    row = store.row("SELECT blocks, document FROM learned WHERE campaign = ?", (campaign,))
    return (int(row["blocks"]), _unpacked(row["document"])) if row else (0, {})


def load_lessons(store: Store, campaign: int) -> dict[int, dict[str, Any]]:
    """Load the lessons that are not folded yet, by block."""
    rows = store.rows("SELECT block, document FROM lessons WHERE campaign = ? ORDER BY block", (campaign,))
    return {int(row["block"]): _unpacked(row["document"]) for row in rows}


def keep_refusals(store: Store, package: str, release: str, forms: Iterable[str]) -> None:
    """Keep what a release was seen to refuse."""
    with store.transaction():
        for form in sorted(forms):
            store.write("INSERT OR IGNORE INTO refusals VALUES (?, ?, ?)", (package, release, form))


def load_refusals(store: Store, package: str, release: str) -> frozenset[str]:
    """Load what a release was seen to refuse."""
    sql = "SELECT form FROM refusals WHERE package = ? AND release = ?"
    return frozenset(store.column(sql, (package, release)))


def _packed(document: Document) -> bytes:
    return zlib.compress(dump(document).encode(), 3)


def _unpacked(content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = parsed(unpack(content, MOST_LESSON, "a lesson"), LESSON, "a lesson")
    return found


def start_run(store: Store, command: str, target: str, first_seed: int) -> int:
    """Add a running campaign; its number."""
    values = {"command": command, "target": target, "next_seed": first_seed}
    with store.transaction():
        return store.insert("runs", {**values, "started": now(), "status": "running"})


def update_run(store: Store, run: int, *, next_seed: int, tests: int, valid: int, failures: int) -> None:
    """Note how far a run has come; after a kill the next one goes on from here."""
    store.write(
        "UPDATE runs SET next_seed = ?, tests = ?, valid = ?, failures = ? WHERE id = ?",
        (next_seed, tests, valid, failures, run),
    )


def finish_run(store: Store, run: int, status: str) -> None:
    """Say how a run has ended."""
    store.write("UPDATE runs SET status = ?, ended = ? WHERE id = ?", (status, now(), run))


def next_seed(store: Store, target: str) -> int:
    """The first seed that no earlier run of this target has tested; 0 in a new database."""
    return int(store.value("SELECT max(next_seed) FROM runs WHERE target = ?", (target,)) or 0)


def run_totals(store: Store) -> dict[str, int]:
    """Count the `tests` of all runs, and the `valid` ones."""
    row = store.row("SELECT coalesce(sum(tests), 0) AS tests, coalesce(sum(valid), 0) AS valid FROM runs")
    return dict(row or {})


MOST_ROWS = 2000
"""Of one run in `samples`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A campaign at one moment; `new` and `known` count bugs, `memory` is in bytes, `cpu` in seconds."""

    tests: int
    valid: int
    failures: int
    coverage: int
    blocks: int
    new: int
    known: int
    waiting: int
    cpu: float
    memory: int


@dataclass(frozen=True, slots=True)
class StrategyCost:
    """The present cost of an arm (strategy and mode): tests, CPU seconds, failing tests."""

    tests: int = 0
    cpu: float = 0.0
    failures: int = 0


def keep_sample(store: Store, run: int, sample: Sample) -> None:
    """Add a point to a run's curves."""
    with store.transaction():
        store.insert("samples", {"run": run, "at": now(), **asdict(sample)})
        _thin(store, run)


def keep_decision(store: Store, run: int, choice: str, why: str, cpu: float, gained: float) -> None:
    """Add what a hunt did for a while: why that was chosen, what it cost, how many new bugs it gained."""
    with store.transaction():
        values = {"choice": choice, "why": why, "cpu": round(cpu, 3), "gained": gained}
        store.insert("decisions", {"run": run, "at": now(), **values})


def keep_costs(
    store: Store, campaign: int, costs: Mapping[str, StrategyCost], earned: Mapping[str, float]
) -> None:
    """Keep what the arms of a campaign have cost and earned by now."""
    with store.transaction():
        for arm, cost in sorted(costs.items()):
            spent = (cost.tests, round(cost.cpu, 3), cost.failures)
            values = (campaign, arm, *spent, round(earned.get(arm, 0.0), 3))
            store.write("INSERT OR REPLACE INTO arm_costs VALUES (?, ?, ?, ?, ?, ?)", values)


def load_costs(store: Store, campaign: int) -> dict[str, StrategyCost]:
    """Load the costs of a campaign's arms."""
    rows = store.rows("SELECT arm, tests, cpu, failures FROM arm_costs WHERE campaign = ?", (campaign,))
    return {str(row.pop("arm")): StrategyCost(**row) for row in rows}


def progress_document(store: Store) -> dict[str, Any]:
    """Points, arms and decisions of all campaigns, as a page and JSON show them."""
    return {
        "runs": store.rows(
            "SELECT id, command, target, started, ended, status, tests, valid, failures FROM runs"
        ),
        "samples": store.rows("SELECT * FROM samples ORDER BY id"),
        "arms": store.rows("SELECT * FROM arm_yields ORDER BY earned DESC, tests DESC"),
        "choices": store.rows(
            """SELECT choice, count(*) AS times, round(sum(cpu), 1) AS cpu_seconds, sum(gained) AS gained
               FROM decisions GROUP BY choice ORDER BY cpu_seconds DESC"""
        ),
        "decisions": store.rows(
            "SELECT at, choice, why, cpu, gained FROM decisions ORDER BY at DESC, id DESC LIMIT 20"
        ),
    }


def _thin(store: Store, run: int) -> None:
    """Let every other sample of a run go where there are too many."""
    if store.value("SELECT count(*) FROM samples WHERE run = ?", (run,)) > MOST_ROWS:
        store.write(
            """DELETE FROM samples WHERE id IN (SELECT id FROM
               (SELECT id, row_number() OVER (ORDER BY id) AS place FROM samples WHERE run = ?)
               WHERE place % 2 = 0)""",
            (run,),
        )


Library = tuple[str, str, int, bytes]
"""One build of a library: the build, its name, its blocks in all, and a bit for each of them that was met."""


def load_met(store: Store, target: str, build: str) -> bytes:
    """The bits of the blocks that were met of a build; empty where none were kept."""
    met = store.value("SELECT met FROM native_libraries WHERE target = ? AND build = ?", (target, build))
    return zlib.decompress(met) if met else b""


def keep_coverage(
    store: Store,
    target: str,
    libraries: Iterable[Library],
    files: Sequence[Reached],
) -> None:
    """Keep what a target's code was met of by now."""
    with store.transaction():
        for build, library, blocks, met in libraries:
            values = (target, build, library, blocks, zlib.compress(met, 6))
            store.write("INSERT OR REPLACE INTO native_libraries VALUES (?, ?, ?, ?, ?)", values)
        store.write("DELETE FROM native_files WHERE target = ?", (target,))
        for each in files:
            store.insert("native_files", {"target": target, "pass_name": each.pass_name, **asdict(each)})


def coverage_documents(store: Store) -> list[dict[str, Any]]:
    """List each target's coverage in all, by pass and by file, those with most blocks first."""
    targets = store.column("SELECT DISTINCT target FROM native_files ORDER BY target")
    return [_document(store, target) for target in targets]


def _document(store: Store, target: str) -> dict[str, Any]:
    sums = ", ".join(f"sum({name}) AS {name}" for name in _COUNTS)
    (whole,) = store.rows(f"SELECT {sums} FROM native_files WHERE target = ?", (target,))
    grouped = f"SELECT {{0}} AS name, {sums} FROM native_files WHERE target = ? {{1}} GROUP BY 1 ORDER BY"
    passes = grouped.format("pass_name", "AND pass_name != ''") + " sum(blocks) DESC, 1"
    files = grouped.format("file", "") + " sum(blocks) DESC, 1"
    return {
        "target": target,
        **whole,
        "passes": store.rows(passes, (target,)),
        "files": store.rows(files, (target,)),
    }


_COUNTS = ("functions", "functions_met", "blocks", "blocks_met")
