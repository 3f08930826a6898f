"""A fault matrix: kill -9 at random moments over the commands; nothing lost, nothing wrong, nothing left.

Run with `pytest -s tests/bench/bench_kills.py -m bench`; `CRUX_KILLS` says how many (200 by
default), `CRUX_KILLS_SEED` at which moments.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus.case import Case
from tests.helpers.failing import division_crash
from triage.store.database import Store

KILLS = int(os.environ.get("CRUX_KILLS", "200"))
SEED = int(os.environ.get("CRUX_KILLS_SEED", "1"))
CRUX = [sys.executable, "-m", "triage.cli"]
ROLES = ("main", "launcher", "worker")


def commands(folder: Path) -> dict[str, list[str]]:
    database = ["--db", str(folder / "crux.db")]
    return {
        "check": ["check", str(folder / "case"), *database],
        "reduce": ["reduce", str(folder / "case"), "-o", str(folder / "out")],
        "hunt": ["hunt", "--minutes", "0.1", "-o", str(folder / "hunt"), *database],
        "report": ["report", str(folder / "case"), "-o", str(folder / "report")],
        "export": ["db", "export", str(folder / "copy"), *database],
        "import": ["db", "import", str(folder / "theirs"), *database],
        "gc": ["db", "gc", "--grace-minutes", "0", *database],
    }


def below(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield int(child)
            yield from below(int(child))


def victim(main: int, role: str) -> int:
    """The process to kill: of the launchers the first, of the workers the last."""
    others = list(below(main))
    if role == "main" or not others:
        return main
    return others[0] if role == "launcher" else others[-1]


@pytest.mark.bench
@pytest.mark.timeout(0)
def test_kills_lose_nothing(tmp_path, monkeypatch):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    counts: Counter[str] = Counter()
    draws = random.Random(SEED)
    base = tmp_path / "base"
    division_crash(8).save(base / "case")
    subprocess.run([*CRUX, *commands(base)["check"]], check=False, capture_output=True)
    shutil.copytree(base, base / "theirs", ignore=shutil.ignore_patterns("case", "theirs"))
    with Store(base / "crux.db") as store:
        known = {row["case_id"] for row in store.rows("SELECT case_id FROM cases")}
    for number in range(KILLS):
        folder = tmp_path / f"run-{number}"
        shutil.copytree(base, folder)
        name = list(commands(folder))[number % 7]
        role = ROLES[number // 7 % 3]
        with subprocess.Popen([*CRUX, *commands(folder)[name]], stdout=-3, stderr=subprocess.PIPE) as process:
            time.sleep(draws.uniform(0.1, 6.0 if name in ("hunt", "report", "reduce") else 3.0))
            every = list(below(process.pid))
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim(process.pid, role), signal.SIGKILL)
            _, text = process.communicate(timeout=180)
        assert b"Traceback" not in text, text.decode()
        deadline = time.monotonic() + 15
        while any(Path(f"/proc/{pid}").exists() for pid in every) and time.monotonic() < deadline:
            time.sleep(0.1)
        left = [pid for pid in every if Path(f"/proc/{pid}").exists()]
        assert not left, (name, role, left)
        again = subprocess.run([*CRUX, "db", "check", "--db", str(folder / "crux.db")], capture_output=True)
        assert again.returncode == 0, again.stdout
        with Store(folder / "crux.db") as store:
            assert known <= {row["case_id"] for row in store.rows("SELECT case_id FROM cases")}
        if name == "reduce":
            done = subprocess.run([*CRUX, *commands(folder)["reduce"]], capture_output=True)
            assert done.returncode == 0, done.stderr
            assert Case.load(folder / "out").measure.ops == ("Div",)
        counts[f"{name}, {role}: exit {process.returncode}"] += 1
        shutil.rmtree(folder)
    subprocess.run([*CRUX, "check", str(base / "case")], capture_output=True, check=False)
    folders = [path for path in scratch.iterdir() if path.name.startswith("tensorcrux-")]
    print(f"{KILLS} kills, 0 lost, 0 wrong, {len(folders)} scratch folders left")
    for line, count in sorted(counts.items()):
        print(f"| {line} | {count} |")
    assert not folders
