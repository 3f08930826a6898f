"""What a person sees of a hunt: the screen, lines, and the page that is served to this machine alone."""

import contextlib
import fcntl
import http.client
import io
import json
import os
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from corpus.errors import UserError
from oracles.naming import Signature
from oracles.native.watching import Reached
from tests.helpers.commands import command, environment, hear_interrupts
from tests.helpers.failing import division_crash, healthy
from tests.helpers.failing import verdict as made_up
from tests.helpers.pages import Page
from triage.bugs.failures import record_failure, record_reduction
from triage.campaigns.target_campaigns import FLOOR, CpuShares
from triage.console import status
from triage.console.status import HuntStatus, JsonLines, LatestFinding, Progress, StrategyStats, picture
from triage.pages.campaign import campaign_page, serving, write_campaign_page
from triage.store.campaigns import (
    MOST_ROWS,
    Sample,
    StrategyCost,
    keep_costs,
    keep_coverage,
    keep_decision,
    keep_sample,
    load_costs,
    progress_document,
    start_campaign,
    start_run,
)
from triage.store.database import Store

HOSTILE = "<script>alert(1)</script> \x1b[2J of shape {3,4}"
ARMS = tuple(
    StrategyStats(f"strategy{at}|strict", 100 * at, at / 45, float(at), at, at / 2) for at in range(10)
)
NOW = HuntStatus(
    "ort, tvm",
    "reducing F00012: drop outputs: 14 nodes, 5,694 bytes, 31 checks",
    3725.0,
    3475.0,
    12345,
    11864,
    205.3,
    45120,
    77034,
    27,
    9,
    {"ready": 3, "new": 1, "known": 2},
    812.4,
    230 << 20,
    ARMS,
    LatestFinding("F00027", HOSTILE, 72.0, "another face of C0003"),
)


def drawn(now: HuntStatus, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(picture(now))
    found = console.file
    assert isinstance(found, io.StringIO)
    return found.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 131, 132])
def test_the_screen_says_all_that_matters_at_any_width_and_in_few_lines(width):
    lines = drawn(NOW, width)
    text = "\n".join(lines)
    for wanted in ("12,345", "205", "96.1%", "45,120", "57:55 left", "F00027", "strategy9 strict", "77,034"):
        assert wanted in text
    words = " ".join(text.split())
    assert "F00027 another face of C0003: <script>" in words
    assert max(map(len, lines)) <= width
    assert len(lines) <= 18
    assert "\x1b" not in text


@given(
    st.text(max_size=300),
    st.integers(0, 10**12),
    st.floats(0, 10**7),
    st.none() | st.floats(0, 10**7),
    st.integers(60, 220),
)
def test_nothing_breaks_the_screen(doing, tests, elapsed, left, width):
    now = HuntStatus("ort", doing, elapsed, left, tests, tests, 0.0, 0, 0, 0, 0, {}, 0.0, 0)
    assert max(map(cell_len, drawn(now, width))) <= width
    assert "no find yet" in "\n".join(drawn(now, width))


def test_one_line_says_it_and_json_lines_say_it_all(capsys, monkeypatch):
    monkeypatch.setattr(status, "PLAIN_SECONDS", 10)
    assert NOW.line().endswith(
        "bugs 4 new, 2 known, last F00027, another face of C0003, 1:12 ago, 57:55 left"
    )
    for display in (Progress(), JsonLines()):
        display.note("found it")
        display.show(NOW)  # too early for a line
        start = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda start=start: start + 11)
        display.show(NOW)
        monkeypatch.undo()
    plain, line, note, situation = capsys.readouterr().err.splitlines()
    assert plain.endswith("found it")
    assert "12,345 tests" in line
    assert json.loads(note)["note"] == "found it"
    assert json.loads(situation)["bugs"] == {"ready": 3, "new": 1, "known": 2}


@pytest.fixture
def store(tmp_path: Path):
    """A database with two runs, arms and decisions, and a name that is hostile."""
    with Store(tmp_path / "crux.db") as made:
        campaign = start_campaign(made, "ort", 0)
        for run in (start_run(made, "hunt", "ort", 0), start_run(made, "hunt", HOSTILE, 0)):
            for at in range(5):
                keep_sample(
                    made, run, Sample(100 * at, 90 * at, at, 1000 * at, 0, at, 1, 2, float(at), 2**27)
                )
            keep_decision(made, run, "fuzzing ort", HOSTILE, 40.0, 2)
        keep_costs(made, campaign.id, {"random|strict": StrategyCost(100, 40.0, 3)}, {"random|strict": 2.5})
        yield made


def test_the_page_shows_arms_decisions_and_curves_and_takes_no_markup_from_names(store, tmp_path):
    path = write_campaign_page(store, tmp_path)
    text = path.read_text(encoding="utf-8")
    assert (Page(text).loads, Page(text).scripts) == ([], [])
    assert "<script>alert" not in text
    for wanted in ("random · strict", "2.5", "225.0", "fuzzing ort", "Pieces of coverage", "Tests a second"):
        assert wanted in text
    assert len(Page(campaign_page(store, is_live=True)).scripts) == 1


def test_the_page_names_the_last_bugs_and_the_files_that_were_met(store):
    record_failure(store, division_crash(), made_up(HOSTILE))
    met = Reached("lib.so", "core/providers/cpu/clip.cc", 4, 2, 40, 12)
    keep_coverage(store, "ort", [("1f", "lib.so", 40, b"")], [met])
    text = campaign_page(store)
    for wanted in ("C0001", "core/providers/cpu/clip.cc", "12 of 40 blocks"):
        assert wanted in text
    assert "<script>alert" not in text


def hunt_on_a_terminal(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A hunt as a person starts it, of a database with one bug; with the terminal's other end."""
    signature = Signature.of(("backend", "ort"), ("outcome", "exception"), ("message", "a planted bug"))
    with Store(folder / "crux.db") as planted:
        failure = record_failure(planted, healthy(), made_up("a planted bug"))
        document = {"nodes_before": 4, "nodes_after": 1, "checks": 3, "passes": [], "minimal": True}
        record_reduction(planted, failure, healthy(), made_up("a planted bug"), signature, document)

    def take_terminal() -> None:
        hear_interrupts()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    near, far = os.openpty()
    hunt = subprocess.Popen(
        command("hunt", "--minutes", "20"),
        cwd=folder,
        env={**environment(folder), "TERM": "xterm-256color", "COLUMNS": "100"},
        stdin=far,
        stdout=far,
        stderr=far,
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    os.close(far)
    return hunt, near


def read_until(terminal: int, text: bytes) -> str:
    """What is written to a terminal until it says this, or to its end."""
    seen = b""
    with contextlib.suppress(OSError):
        while text not in seen and (more := os.read(terminal, 65536)):
            seen += more
    return seen.decode(errors="replace")


def test_an_interrupted_hunt_leaves_the_table_of_its_bugs_on_the_terminal(tmp_path):
    """Seen as a person sees it: the screen of a terminal after Ctrl-C."""
    hunt, terminal = hunt_on_a_terminal(tmp_path)
    assert "fuzzing ort" in read_until(terminal, b"fuzzing ort")
    hunt.send_signal(signal.SIGINT)
    after = read_until(terminal, b"its last word").rpartition("bundle")
    os.close(terminal)
    assert hunt.wait() == 130
    assert "C0001" in after[2], "the table comes whole, after the live screen has gone"
    assert "interrupted; everything found so far is kept" in after[2]


def test_a_hunt_whose_terminal_is_closed_was_interrupted(tmp_path):
    hunt, terminal = hunt_on_a_terminal(tmp_path)
    assert "fuzzing ort" in read_until(terminal, b"fuzzing ort")
    os.close(terminal)
    assert hunt.wait() == 130


def test_an_empty_database_has_a_page_and_no_file(tmp_path):
    with Store(tmp_path / "crux.db") as empty:
        assert "No campaign was seen yet" in campaign_page(empty)
        assert write_campaign_page(empty, tmp_path / "out") is None


def test_the_page_is_served_to_this_machine_by_its_own_name_alone(store):
    with serving(store.path, 0) as address:
        assert address.startswith("http://127.0.0.1:")
        port = int(address.rstrip("/").rpartition(":")[2])

        def asked(path: str, host: str) -> tuple[int, str]:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        status, page = asked("/", f"localhost:{port}")
        assert (status, "random · strict" in page) == (200, True)
        assert asked("/", "evil.example")[0] == 403
        assert asked("/../crux.db", f"127.0.0.1:{port}")[0] == 404
        with pytest.raises(UserError, match="--port"), serving(store.path, port):
            pass
    with pytest.raises(ConnectionRefusedError):
        asked("/", "localhost")


def test_what_is_kept_of_a_long_run_stays_small_and_its_sums_stay_right(store):
    run = start_run(store, "hunt", "ort", 0)
    with store.transaction():
        for at in range(2 * MOST_ROWS + 10):
            keep_sample(store, run, Sample(at, at, 0, 0, 0, 0, 0, 0, 0.0, 0))
    row = store.row("SELECT count(*) AS count FROM samples WHERE run = ?", (run,))
    assert MOST_ROWS // 3 < row["count"] <= MOST_ROWS
    last = store.row("SELECT max(tests) AS tests, min(tests) AS first FROM samples WHERE run = ?", (run,))
    assert last == {"tests": 2 * MOST_ROWS + 9, "first": 0}
    assert progress_document(store)["choices"]
    assert load_costs(store, 1) == {"random|strict": StrategyCost(100, 40.0, 3)}


def test_time_goes_to_what_yields_and_nothing_starves():
    shares = CpuShares()
    for _ in range(200):
        chosen = shares.choose(("poor", "rich", "dry"))
        gain = {"poor": 0.05, "rich": 0.5, "dry": 0.0}[chosen.name]
        shares.add(chosen.name, 10.0, gain)
    whole = sum(shares.whole.values())
    parts = {name: cpu / whole for name, cpu in shares.whole.items()}
    assert parts["rich"] > 0.6
    assert min(parts.values()) >= 0.8 * FLOOR / 3
    assert "floor" in CpuShares().choose(("one", "other")).why


def test_a_yield_that_dries_up_loses_its_share():
    shares = CpuShares()
    chosen = []
    for at in range(200):
        name = shares.choose(("first", "second")).name
        chosen.append(name)
        shares.add(name, 10.0, 1.0 if name == ("first" if at < 60 else "second") else 0.0)
    assert chosen[20:60].count("first") > 25
    assert chosen[150:].count("second") > 35
