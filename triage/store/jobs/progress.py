"""How campaigns went, in the store: points over time, what arms cost, what was decided and why.

Each of these stays small however long a campaign is: where a run has too many rows, every other one goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from triage.store.database import Store, now

MOST_ROWS = 2000
"""Of one run in `samples` and in `decisions`."""


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
class ArmCost:
    """The present cost of an arm (strategy and mode): tests, CPU seconds, failing tests."""

    tests: int = 0
    cpu: float = 0.0
    failures: int = 0


def keep_sample(store: Store, run: int, sample: Sample) -> None:
    """Add a point to a run's curves."""
    with store.transaction():
        store.insert("samples", {"run": run, "at": now(), **asdict(sample)})
        _thin(store, "samples", run)


def keep_decision(store: Store, run: int, choice: str, why: str, cpu: float, gained: float) -> None:
    """Add what a hunt did for a while: why that was chosen, what it cost, how many new bugs it gained."""
    with store.transaction():
        values = {"choice": choice, "why": why, "cpu": round(cpu, 3), "gained": gained}
        store.insert("decisions", {"run": run, "at": now(), **values})
        _thin_decisions(store, run)


def keep_costs(store: Store, campaign: int, costs: Mapping[str, ArmCost]) -> None:
    """Keep what the arms of a campaign have cost by now."""
    with store.transaction():
        for arm, cost in sorted(costs.items()):
            values = (campaign, arm, cost.tests, round(cost.cpu, 3), cost.failures)
            store.write("INSERT OR REPLACE INTO arm_costs VALUES (?, ?, ?, ?, ?)", values)


def load_costs(store: Store, campaign: int) -> dict[str, ArmCost]:
    """Load the costs of a campaign's arms."""
    rows = store.rows("SELECT arm, tests, cpu, failures FROM arm_costs WHERE campaign = ?", (campaign,))
    return {str(row.pop("arm")): ArmCost(**row) for row in rows}


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


def _thin(store: Store, table: str, run: int) -> None:
    """Let every other row of a run go where there are too many."""
    row = store.row(f"SELECT count(*) AS count FROM {table} WHERE run = ?", (run,))
    if row and row["count"] > MOST_ROWS:
        store.write(
            f"""DELETE FROM {table} WHERE id IN (SELECT id FROM
                (SELECT id, row_number() OVER (ORDER BY id) AS place FROM {table} WHERE run = ?)
                WHERE place % 2 = 0)""",
            (run,),
        )


def _thin_decisions(store: Store, run: int) -> None:
    """Let the older half of a run's decisions become one row for each choice: sums stay as they are."""
    row = store.row("SELECT count(*) AS count FROM decisions WHERE run = ?", (run,))
    if not row or row["count"] <= MOST_ROWS:
        return
    middle = store.rows(
        "SELECT at FROM decisions WHERE run = ? ORDER BY at LIMIT 1 OFFSET ?", (run, MOST_ROWS // 2)
    )[0]["at"]
    sums = store.rows(
        """SELECT min(at) AS at, choice, count(*) AS times, sum(cpu) AS cpu, sum(gained) AS gained
           FROM decisions WHERE run = ? AND at < ? GROUP BY choice ORDER BY choice""",
        (run, middle),
    )
    store.write("DELETE FROM decisions WHERE run = ? AND at < ?", (run, middle))
    for each in sums:
        each["why"] = f"{each.pop('times')} earlier ones"
        store.insert("decisions", {"run": run, **each})
