"""Four hunts on one database, one killed, one suspended, garbage collected meanwhile: nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.commands import waited_for
from triage.store.database import Store

CRUX = [sys.executable, "-m", "triage.cli"]
SUSPENDED = float(os.environ.get("CRUX_SUSPENDED", "20"))
"""Seconds for which one of the hunts stands still."""

TOLD = "SELECT sum(tests) AS tests, sum(failures) AS failures FROM runs"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_four_hunts_on_one_database_lose_nothing(tmp_path):
    database = tmp_path / "crux.db"
    minutes = str((SUSPENDED + 20) / 60)
    exact = ["--rtol", "0", "--atol", "0"]  # rounding counts as a bug, so that there is something to lose
    hunting = [*CRUX, "hunt", "--minutes", minutes, *exact, "--db", str(database), "--json"]
    hunts = [
        subprocess.Popen(
            [*hunting, "--seed", str(1000 * at), "-o", str(tmp_path / f"bundles-{at}")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for at in range(4)
    ]
    wait_for_tests(database, hunts)
    seen = kept(database)
    hunts[0].send_signal(signal.SIGKILL)
    hunts[1].send_signal(signal.SIGSTOP)
    collect(database)
    time.sleep(SUSPENDED)
    collect(database)
    hunts[1].send_signal(signal.SIGCONT)
    ended = [hunt.communicate() for hunt in hunts]

    for hunt, (_, said) in zip(hunts[1:], ended[1:], strict=True):
        assert hunt.returncode in (0, 1), said
        assert "Traceback" not in said
    assert hunts[0].returncode == -signal.SIGKILL
    collect(database)
    done = subprocess.run([*CRUX, "db", "check", "--db", str(database), "--json"], capture_output=True)
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["problems"] == []
    after = kept(database)
    assert seen <= after
    told = [json.loads(out) for out, _ in ended[1:]]
    assert all(each["tests"] > 0 for each in told)
    with Store(database) as store:
        (row,) = store.rows(TOLD)
        assert row["tests"] >= sum(each["tests"] for each in told)
        assert row["failures"] >= sum(each["failures"] for each in told)
        assert store.count("failures") >= sum(each["failures"] for each in told)


def wait_for_tests(database: Path, hunts: list[subprocess.Popen[str]]) -> None:
    """Until the hunts are at work."""
    assert waited_for(lambda: any(hunt.poll() is not None for hunt in hunts) or are_at_work(database))
    assert all(hunt.poll() is None for hunt in hunts)


def are_at_work(database: Path) -> bool:
    return database.exists() and len(kept(database)) > 3


def kept(database: Path) -> set[tuple[str, str]]:
    """What must never go: cases and failures, by name."""
    with Store(database) as store:
        cases = {("case", str(row["case_id"])) for row in store.rows("SELECT case_id FROM cases")}
        return cases | {("failure", str(row["id"])) for row in store.rows("SELECT id FROM failures")}


def collect(database: Path) -> None:
    """`crux db gc`, as a person would while others are at work."""
    words = ["db", "gc", "--db", str(database)]
    done = subprocess.run([*CRUX, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
