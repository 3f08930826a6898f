"""A long campaign in short: killed again and again, suspended, on a disk that is full; nothing is lost.

`CRUX_KILLS` says how many kills there are (50).
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from generators.feedback import CoverageSnapshot, together
from tests.helpers.commands import command, crux_apart, environment, waited_for
from triage.campaigns.coverage_sync import FEWEST_FOLDED
from triage.store.campaigns import last_campaign, load_folded, load_lessons
from triage.store.database import Store
from triage.store.failures import list_failures
from triage.store.maintenance.vacuum import examine

KILLS = int(os.environ.get("CRUX_KILLS", "50"))
ROOM = "48m"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "crux-test", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a disk of its own cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def state(folder: Path) -> tuple[int, int]:
    """The seed where the campaign goes on, and how many tests its lessons tell of."""
    with Store(folder / "crux.db") as store:
        campaign = last_campaign(store, "ort")
        if campaign is None:
            return 0, 0
        _, folded = load_folded(store, campaign.id)
        parts = [CoverageSnapshot.of(each) for each in load_lessons(store, campaign.id).values()]
        return campaign.next_seed, sum(together([CoverageSnapshot.of(folded), *parts]).tried.values())


def cases(folder: Path) -> set[tuple[str, str]]:
    """The failures that do not hang on chance: those that give another result on every run may pass."""
    with Store(folder / "crux.db") as store:
        steady = [each for each in list_failures(store) if "nondeterministic" not in each.symptom]
        return {(each.case_id, each.outcome) for each in steady}


def begun(folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """A hunt in a group of its own, once it has said that it runs."""
    with log.open("wb") as stderr:
        return subprocess.Popen(
            command("hunt", "--minutes", "30", "--json", "--timeout", "5"),
            cwd=folder,
            env={**environment(folder), "TMPDIR": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )


def went_on(folder: Path, before: int) -> bool:
    """Whether the campaign has come further."""
    with contextlib.suppress(Exception):  # the database may not be there yet
        return state(folder)[0] > before
    return False


def test_kills_a_suspended_machine_and_a_full_disk_lose_nothing(disk, tmp_path):
    draws = random.Random(0)
    log, seed, found = tmp_path / "log", 0, set[tuple[str, str]]()
    for at in range(KILLS):
        hunt = begun(disk, log)
        assert waited_for(lambda seed=seed: went_on(disk, seed))
        time.sleep(draws.uniform(0.0, 1.5))
        if at % 10 == 3:  # the machine sleeps for longer than any wall limit of a test that is short
            os.killpg(hunt.pid, signal.SIGSTOP)
            time.sleep(6)
            os.killpg(hunt.pid, signal.SIGCONT)
            time.sleep(0.5)
        os.kill(hunt.pid, signal.SIGKILL) if at % 2 else os.killpg(hunt.pid, signal.SIGKILL)
        hunt.wait()
        next_seed, told = state(disk)
        assert next_seed == told  # each seed taught once, and none was left out
        assert next_seed >= seed
        assert found <= cases(disk)
        seed, found = next_seed, cases(disk)
    with Store(disk / "crux.db") as store:
        assert examine(store)["sound"]

    free = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(max(free.f_bavail * free.f_frsize - (64 << 10), 0)))
    full = crux_apart(disk, "fuzz", "--tests", "2000")
    assert (full.returncode, full.stderr.count("Traceback")) == (2, 0), full.stderr
    (disk / "ballast").unlink()
    with Store(disk / "crux.db") as store:
        assert examine(store)["sound"]
    next_seed, told = state(disk)
    assert (next_seed == told, next_seed >= seed, found <= cases(disk)) == (True, True, True)

    whole = tmp_path / "whole"
    whole.mkdir()
    alone = crux_apart(whole, "fuzz", "--tests", str(next_seed), "--timeout", "5")
    assert alone.returncode == 0, alone.stderr
    assert cases(whole) <= cases(disk)  # a hunt meets more on its way, by reducing
    assert {case for case in cases(disk) if case[1] == "timeout"} <= cases(whole)

    leavings = [
        path.name for path in disk.iterdir() if not path.name.startswith(("crux.db", "crux-reports", "state"))
    ]
    processes = [one for one in Path("/proc").glob("[0-9]*") if is_of(one, str(disk))]
    with Store(disk / "crux.db") as store:
        rows = {name: store.count(name) for name in ("lessons", "samples", "decisions", "runs")}
    print(f"\n{KILLS} kills, {next_seed} seeds, {len(cases(disk))} failures, left: {leavings}, rows: {rows}")
    assert processes == []
    assert rows["lessons"] <= max(FEWEST_FOLDED, next_seed // 16) + 64
    assert len(leavings) <= 10


def is_of(process: Path, folder: str) -> bool:
    """Whether a process works for the hunt of a folder."""
    with contextlib.suppress(OSError):
        return folder.encode() in (process / "environ").read_bytes() and process.name != str(os.getpid())
    return False
