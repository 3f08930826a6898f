"""What the machine refuses and what lies damaged on it: one line, the right exit code, no verdict lost."""

import errno
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from tests.helpers.commands import ROOT, on_a_terminal
from tests.helpers.models import chain_of
from triage.cli import WORKFLOWS, run
from triage.store.database import Store

CRUX = [sys.executable, "-m", "triage.cli"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("machine")
    Case("onnx", chain_of(["Erf"] * 3).SerializeToString(), {"x": np.ones(2, np.float32)}).save(
        found / "case"
    )
    return found


def crux(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A shell line with `crux` in it, in that folder."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    line = line.replace("crux", f"{' '.join(CRUX)}", 1)
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


# A disk that is full


def on_a_small_disk(folder: Path, size: str, line: str) -> subprocess.CompletedProcess[str]:
    """The line where `small` is a file system of that size, which goes with the line."""
    (folder / "small").mkdir(exist_ok=True)
    mount = f"mount -t tmpfs -o size={size} none small"
    done = crux(folder, f"unshare -rm bash -c '{mount} || exit 99; {line}'")
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"no file system can be mounted: {done.stderr}")
    return done


FULL = "head -c 1M /dev/zero > small/filling 2>/dev/null;"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "line", "code", "is_told"),
    [
        ("100k", "crux check case --db small/crux.db", 2, True),
        ("64k", f"{FULL} crux reduce case -o small/out --check true", 2, False),
        ("64k", f"{FULL} crux check case --db small/crux.db", 2, True),
        ("64k", f"{FULL} crux report case -o small/report", 2, False),
        ("64k", f"{FULL} crux hunt --minutes 0.1 -o small/hunt --db small/crux.db", 2, False),
        ("64k", f"{FULL} crux generate --count 3 -o small/made", 2, False),
        ("64k", "crux check case --db /dev/full", 2, True),
    ],
)
def test_a_full_disk_is_one_line(folder, size, line, code, is_told):
    done = on_a_small_disk(folder, size, line)

    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert "failure of its own" not in done.stderr
    assert [each for each in done.stderr.splitlines() if each.startswith("crux: ")] != []
    if is_told:
        assert json.loads(done.stdout.splitlines()[0])


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["-f 8", "-f 64", "-d 400000", "-n 64", "-s 256", "-c 0"])
@pytest.mark.parametrize(("line", "codes"), [("check case", {0}), ("check case --db limited.db", {0, 2})])
def test_small_limits_leave_the_verdict(folder, limit, line, codes):
    (folder / "limited.db").unlink(missing_ok=True)
    done = crux(folder, f"ulimit {limit}; crux {line}")

    assert done.returncode in codes, done.stderr
    assert json.loads(done.stdout)["outcome"] == "pass"
    assert len(done.stderr.splitlines()) == (done.returncode == 2)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_no_more_is_told_as_such(code):
    from triage.console.output import disk_complaint

    assert disk_complaint(OSError(code, os.strerror(code), "here")).startswith("here: ")


# Databases


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """With one case in it, all of it in the file itself."""
    with Store(tmp_path / "crux.db") as store:
        store.add_case(Case("onnx", chain_of(["Erf"] * 3).SerializeToString(), {"x": np.ones(2, np.float32)}))
    with sqlite3.connect(tmp_path / "crux.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return tmp_path / "crux.db"


def problems(database: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = run(["db", "check", "--json", "--db", str(database)])
    text = capsys.readouterr().out
    return code, json.loads(text)["problems"]


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8])
def test_a_damaged_page_is_told(database, capsys, share):
    """Page by page from there on: some hold nothing."""
    content = bytearray(database.read_bytes())
    for page in range(int(share * len(content)) // 4096, len(content) // 4096):
        if any(content[4096 * page :][:4096]):
            content[4096 * page : 4096 * page + 600] = b"\x5a" * 600
            break
    database.write_bytes(content)
    code, found = problems(database, capsys)

    assert code == 1
    assert found


@pytest.mark.parametrize("size", [0, 50, 4096, 20000])
def test_a_cut_database_is_told(database, capsys, size):
    os.truncate(database, size)
    assert run(["db", "check", "--db", str(database)]) in ((1,) if size else (0, 1))


@pytest.mark.parametrize("content", [None, b"", b"another"])
def test_a_missing_or_changed_blob_is_told(database, capsys, content):
    with Store(database) as store:
        digest = next(iter(store.blobs.digests()))
        path = store.blobs.path(digest)
    path.chmod(0o600)
    path.unlink() if content is None else path.write_bytes(content)
    code, found = problems(database, capsys)

    assert code == 1
    assert any(digest[:12] in line and "missing or damaged" in line for line in found)


# Terminals


COMMANDS = [name for names in WORKFLOWS.values() for name in names]
LINES = [
    *([name, "--help"] for name in COMMANDS),
    ["--version"],
    ["nonsense"],
    ["check", "--nonsense"],
    ["check", "nowhere"],
    ["check", "case"],
    ["check", "case", "--json"],
    ["reduce", "case", "-o", "out", "--check", "true"],
    ["show", "case"],
    ["generate", "--count", "2", "-o", "made"],
    ["fuzz", "--tests", "3", "--db", "crux.db"],
    ["hunt", "--minutes", "0.1", "-o", "hunted", "--db", "crux.db"],
    ["triage", "--db", "crux.db"],
    ["db", "check", "--db", "crux.db"],
    ["passes", "case"],
    ["doctor"],
]


@pytest.mark.parametrize(
    "words", [["--help"], *(pytest.param(words, marks=pytest.mark.slow) for words in LINES)], ids=" ".join
)
def test_no_escape_reaches_a_terminal_that_wants_none(folder, words):
    colours = {"NO_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor", "FORCE_COLOR": "1"}
    written, _ = on_a_terminal(*CRUX, *words, cwd=folder, PYTHONPATH=str(ROOT), **colours)
    assert written
    assert {"\x1b", "\x9b", "\ufffd"}.isdisjoint(written)
