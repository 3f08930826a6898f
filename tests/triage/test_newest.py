"""What the newest release shows: by an index of wheels made here, and by answers that are kept."""

import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.processes import cache_folder
from corpus.target import Target
from oracles.naming import signature
from oracles.verdict import Outcome, Phase, Symptom, Verdict
from tests.helpers.commands import completed
from tests.helpers.failing import clip_exception, on_ort
from tests.triage.test_bisect import index as index  # a fixture
from tests.triage.test_bisect import write_onnxruntime, write_wheel
from triage.bisection import package_index
from triage.bisection.package_index import NOT_ASKED, Newest, newest_of
from triage.bugs.failures import record_failure, record_reduction
from triage.bugs.overview import overview_with_states, state_of
from triage.cli import run
from triage.commands.hunt import on_newest
from triage.console.options import CaseOptions
from triage.console.status import Progress
from triage.reports.newest_release import NewestReleases, OnNewest, Tried
from triage.store.artifacts import LastReport, keep_report, note_newest
from triage.store.database import Store

INSTALLED = version("onnxruntime")
DOCUMENT = {"status": "new", "known": "", "issue": "", "reduced": 1}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_folder()


def test_the_index_names_the_newest_release_and_a_newer_early_one(index, cache):
    for each in ("1.9.0", "1.10.0", "1.10.0rc1"):
        write_wheel(index, "sample", each)
    assert newest_of("sample") == Newest("1.10.0")
    write_wheel(index, "other", "1.9.0")
    write_wheel(index, "other", "1.11.0.dev20261101")
    assert newest_of("other") == Newest("1.9.0", "1.11.0.dev20261101")


def test_an_answer_holds_for_a_day_and_a_silence_for_an_hour(cache, monkeypatch):
    asked = []

    def ask(package: str, *, nightly: bool) -> list[str]:
        asked.append(package)
        if package == "silent":
            raise UserError("the package index cannot be reached")
        return ["1.0", "2.0"]

    monkeypatch.setattr(package_index, "newest_releases", ask)
    for package in ("sample", "silent"):
        assert newest_of(package, offline=True).why == NOT_ASKED
        assert newest_of(package) == newest_of(package) == newest_of(package, offline=True)
    assert newest_of("sample").all == ("2.0",)
    assert (newest_of("silent").all, newest_of("silent").why) == ((), "the package index cannot be reached")
    start = time.time()
    for hours in (2, 25):
        monkeypatch.setattr(time, "time", lambda hours=hours: start + 3600 * hours)
        for package in ("sample", "silent"):
            newest_of(package)
    assert asked == ["sample", "silent", "silent", "sample", "silent"]


@pytest.mark.parametrize(
    ("found", "words", "shows", "fixed"),
    [
        (OnNewest("p", Newest(why="no network")), "was not looked up (no network)", False, ""),
        (OnNewest("p", Newest("2.0"), (Tried("2.0", True),)), "p 2.0, the newest release", True, ""),
        (OnNewest("p", Newest("2.0"), (Tried("2.0", False),)), "p 2.0 does not show it", False, "2.0"),
        (
            OnNewest("p", Newest("2.0", "3.0rc1"), (Tried("2.0", True), Tried("3.0rc1", False))),
            "p 3.0rc1 does not show it",
            False,
            "3.0rc1",
        ),
        (
            OnNewest("p", Newest("2.0", "3.0rc1"), (Tried("2.0", True), Tried("3.0rc1", None, "dies"))),
            "p 2.0, the newest release of the index, shows it",
            True,
            "",
        ),
    ],
)
def test_a_bug_is_ready_if_the_newest_release_shows_it(found, words, shows, fixed):
    assert words in found.words
    assert (found.shows, found.fixed) == (shows, fixed)


@pytest.mark.parametrize(("outcome", "shows"), [(Outcome.CRASH, False), (Outcome.EXCEPTION, None)])
def test_a_release_that_refuses_what_died_here_has_mended_it(outcome, shows, monkeypatch):
    case, refused = clip_exception(), Verdict(Outcome.INVALID, Phase.EXECUTE, "refused: no room")
    here = Verdict(outcome, Phase.EXECUTE, "", Symptom(outcome, Phase.EXECUTE, "x"))
    judge = SimpleNamespace(verdict=lambda case: refused)
    with NewestReleases(CaseOptions(), Progress()) as releases:
        monkeypatch.setattr(releases, "_judges", SimpleNamespace(of=lambda target, format: judge))
        tried = releases._judge("99.0", "", case, here, Target("ort"))
    assert (tried.shows, "refused: no room" in tried.words) == (shows, True)


def test_what_the_newest_release_mended_leaves_the_list_and_an_old_report_makes_nothing_ready():
    assert state_of(DOCUMENT, LastReport("r", ready=False, newest="2.0", fixed="2.0")) == "fixed in 2.0"
    assert state_of(DOCUMENT, LastReport("r", ready=True, newest="2.0")) == "ready"
    assert state_of(DOCUMENT, LastReport("r", ready=True, newest="2.0"), is_outdated=True) == "new"
    assert state_of({**DOCUMENT, "status": "wontfix"}, LastReport("r", fixed="2.0")) == "wontfix"


def with_a_bug(folder: Path) -> Path:
    """A database with one reduced failure."""
    from oracles.judge import Judge

    case, document = clip_exception(), {"nodes_before": 2, "nodes_after": 2, "passes": [], "checks": 1}
    with Store(folder / "crux.db") as store, Judge(Target("ort")) as judge:
        verdict = judge.verdict(case)
        failure = record_failure(store, case, verdict, release=INSTALLED)
        named = signature(verdict, case.measure, case)
        record_reduction(store, failure, case, verdict, named, {**document, "minimal": True})
    return folder / "crux.db"


def test_a_report_of_before_a_release_is_out_of_date(tmp_path):
    with Store(with_a_bug(tmp_path)) as store:
        archive = tmp_path / "C0001.zip"
        archive.write_bytes(b"")
        keep_report(store, 1, "c" * 64, tmp_path, archive, ready=True, newest=INSTALLED)
        assert overview_with_states(store)[0]["state"] == "ready"
        note_newest(store, "onnxruntime", "99.0")
        (document,) = overview_with_states(store)
    assert (document["state"], document["list"], document["outdated"]) == ("new", "to file", True)


@pytest.mark.slow
def test_a_report_tries_the_newest_release_of_the_index(index, cache, tmp_path, capsys):
    write_onnxruntime(index, "99.0", "options.graph_optimization_level = UNOPTIMISED  # no bug shows")
    at = ["--db", str(with_a_bug(tmp_path)), "--json"]
    report = ["report", "C0001", "-o", str(tmp_path / "out"), *at]

    assert run([*report, "--offline"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert not written["ready"]
    assert any(
        "was not looked up (the package index was not asked" in each["text"] for each in written["checks"]
    )

    assert run(report) == 0
    written = json.loads(capsys.readouterr().out)
    assert (written["state"], written["newest"], written["fixed"]) == ("fixed in 99.0", "99.0", "99.0")
    assert "99.0 does not show it" in (tmp_path / "out/C0001/issue.md").read_text()
    assert run(["triage", *at]) == 0
    told = capsys.readouterr()
    (bug,) = json.loads(told.out)
    assert (bug["state"], bug["list"]) == ("fixed in 99.0", "fixed")
    assert "newest onnxruntime: 99.0" in told.err
    assert "1 bug: 1 fixed in 99.0; next: crux hunt" in told.err

    from contextlib import ExitStack

    with ExitStack() as stack:
        target = on_newest(Target("ort"), stack)
        foreign = Target.of_data(str(target))
        assert CaseOptions().trusted(foreign).get("python") == target.get("python")
        with pytest.raises(UserError, match="comes with the case"):
            CaseOptions().trusted(
                foreign.with_setting("python", target.get("python").replace("/bin/", "/lib/"))
            )


# Real releases of onnxruntime, installed from the configured package index and kept between runs

CACHE = Path(tempfile.gettempdir()) / "crux-test-environments" / "bisect"


def pad_before_maxpool() -> Case:
    """Zeros of Pad are values, those of MaxPool are none: wrong since a fusion takes one for the other."""
    nodes = "p = Pad (x, pads) y = MaxPool <kernel_shape = [2, 2]> (p)"
    pads = "int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}"
    text = f"g (float[1,1,3,3] x) => (float[1,1,4,4] y) <{pads}> {{ {nodes} }}"
    return on_ort(text, x=-np.ones((1, 1, 3, 3), np.float32))


def bisect(folder: Path, *words: str) -> dict[str, object]:
    command = [sys.executable, "-m", "triage.cli", "bisect", str(folder / "case"), "--json"]
    done = completed([*command, *words])
    if "package index" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_release_that_brought_a_wrong_fusion_is_found_and_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE))
    pad_before_maxpool().save(tmp_path / "case")
    database = tmp_path / "crux.db"
    words = ["--versions", "1.19.0..1.20.1", "--db", str(database)]
    found = bisect(tmp_path, *words)
    assert (found["last_good"], found["first_bad"], found["first_fixed"]) == ("1.19.2", "1.20.0", None)
    assert [each["release"] for each in found["tried"]] == ["1.19.0", "1.19.2", "1.20.0", "1.20.1"]
    assert "mismatch" in found["symptom"]
    with Store(database) as store:
        assert len(store.rows("SELECT * FROM check_results")) == 4
