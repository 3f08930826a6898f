"""Runs in the store: each fuzzing campaign, its counts, its environment, and where the next one goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from triage.store.database import Store, dump, now


def start_run(
    store: Store, command: str, target: str, environment: Mapping[str, Any], first_seed: int
) -> int:
    """Add a running campaign; its number."""
    with store.transaction():
        values = {"command": command, "target": target, "environment": _keep_environment(store, environment)}
        return store.insert(
            "runs", {**values, "started": now(), "status": "running", "next_seed": first_seed}
        )


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
    """Return the first seed that no earlier run of this target has tested; 0 in a new database."""
    row = store.row("SELECT max(next_seed) AS seed FROM runs WHERE target = ?", (target,))
    return int(row["seed"]) if row and row["seed"] is not None else 0


def run_totals(store: Store) -> dict[str, int]:
    """Count the `tests` of all runs, and the `valid` ones."""
    row = store.row("SELECT coalesce(sum(tests), 0) AS tests, coalesce(sum(valid), 0) AS valid FROM runs")
    return dict(row or {})


def _keep_environment(store: Store, environment: Mapping[str, Any]) -> int:
    document = dump(dict(environment))
    digest = hashlib.sha256(document.encode()).hexdigest()
    store.write("INSERT OR IGNORE INTO environments (digest, document) VALUES (?, ?)", (digest, document))
    row = store.row("SELECT id FROM environments WHERE digest = ?", (digest,))
    assert row is not None
    return int(row["id"])
