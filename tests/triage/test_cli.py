from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from oracles.judge import Judge
from tests.triage.failing import ORT, clip_exception, division_crash, healthy
from triage.bugs.failures import record_failure
from triage.commands.show import _show
from triage.store.database import Store
from triage.store.failures import list_failures

ROOT = Path(__file__).parents[2]


def crux(folder: Path, *arguments: str, setup: str = "", stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, after some Python of the test's."""
    return subprocess.run(
        command(*arguments, setup=setup),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        input=stdin,
        env=environment(folder),
    )


def command(*arguments: str, setup: str = "") -> list[str]:
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{setup}\nfrom triage.cli import main\nmain()"
    return [sys.executable, "-c", start, *arguments]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state")}


@pytest.fixture
def folder(tmp_path):
    division_crash(extra_nodes=3).save(tmp_path / "crash")
    clip_exception().save(tmp_path / "clip")
    healthy().save(tmp_path / "healthy")
    return tmp_path


@pytest.fixture(scope="module")
def crash_shows():
    with Judge(ORT) as judge:
        if not judge.verdict(division_crash()).is_bug:
            pytest.skip("the installed onnxruntime does not show the bug")


needs_crash = pytest.mark.usefixtures("crash_shows")


def test_help_takes_less_than_300_ms_of_cpu_time(tmp_path):
    """The least of three runs: a busy machine takes CPU time, too."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert crux(tmp_path, "--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(once() for _ in range(3)) < 0.3


def test_help_imports_no_framework(tmp_path):
    done = crux(tmp_path, "--help", setup="import atexit\natexit.register(lambda: print(*sys.modules))")
    imported = set(done.stdout.split())
    heavy = {"numpy", "onnx", "onnxruntime", "torch", "tvm", "sqlite3", "sqlite_utils", "jinja2", "ml_dtypes"}
    assert imported & heavy == set()


@pytest.mark.parametrize(
    "arguments",
    [("nonsense",), ("check",), ("check", "x", "--jobs", "0"), ("check", "x", "--target", "nope")],
)
def test_bad_usage_exits_with_2_and_one_line(tmp_path, arguments):
    done = crux(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_case_that_does_not_exist_exits_with_2_and_one_line(tmp_path):
    done = crux(tmp_path, "check", "missing.onnx")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "missing.onnx" in done.stderr


PLANTED = """
import {module}
def planted(*arguments, **options):
    raise ValueError("planted\\nhere")
{module}.{name} = planted
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [("oracles.judge", "Judge.verdict"), ("triage.cases.sources", "open_one"), ("corpus.load", "open_case")],
)
def test_a_failure_of_its_own_exits_with_3_and_leaves_the_traceback_in_a_file(folder, module, name):
    setup = PLANTED.format(module=module, name=name)
    done = crux(folder, "check", "healthy", setup=setup)
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert "ValueError: planted here" in line
    log, bundle = sorted((folder / "state" / "crux").iterdir())
    assert str(log) in line
    assert str(bundle) in line
    assert "Traceback" in log.read_text()
    with zipfile.ZipFile(bundle) as found:
        assert "planted" in found.read("crux.log").decode()
        assert json.loads(found.read("versions.json"))["onnxruntime"]
        assert "case-1/model.onnx" in found.namelist()


def test_a_bundle_of_a_private_command_holds_no_case_and_no_words_of_it(folder):
    setup = PLANTED.format(module="oracles.judge", name="Judge.verdict")
    assert crux(folder, "reduce", "healthy", "-o", "secret", "--private", setup=setup).returncode == 3
    _, bundle = sorted((folder / "state" / "crux").iterdir())
    with zipfile.ZipFile(bundle) as found:
        assert found.namelist() == ["crux.log", "versions.json"]
        assert "secret" not in found.read("crux.log").decode()


def test_a_case_without_a_bug_exits_with_0(folder):
    done = crux(folder, "check", "healthy", "--json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert (document["outcome"], document["symptom"]) == ("pass", "")


@needs_crash
def test_a_bug_exits_with_1_and_its_verdict_has_the_fields_of_the_contract(folder):
    done = crux(folder, "check", "crash", "--json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert {"outcome", "phase", "symptom", "title"} <= set(document)
    assert (document["outcome"], document["phase"]) == ("crash", "execute")


@needs_crash
def test_several_cases_are_a_list_or_lines(folder):
    done = crux(folder, "check", "healthy", "crash", "--json")
    assert [document["outcome"] for document in json.loads(done.stdout)] == ["pass", "crash"]
    done = crux(folder, "check", "healthy", "crash")
    assert [json.loads(line)["case"] for line in done.stdout.splitlines()] == ["healthy", "crash"]


def test_cases_come_from_json_lines_on_stdin(folder):
    done = crux(folder, "check", "-", stdin='"healthy"\n\n{"path": "healthy", "more": 1}\n')
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    done = crux(folder, "check", "-", stdin="healthy\n")
    assert done.returncode == 2
    assert "stdin, line 1" in done.stderr


@needs_crash
def test_a_failing_case_is_kept_only_when_a_database_is_named(folder):
    crux(folder, "check", "crash")
    assert not (folder / "crux.db").exists()
    crux(folder, "check", "crash", "healthy", "--db", "mine.db")
    with Store(folder / "mine.db") as store:
        (failure,) = list_failures(store)
    done = crux(folder, "check", failure.name, failure.case_id[:9], "--db", "mine.db")
    assert [json.loads(line)["outcome"] for line in done.stdout.splitlines()] == ["crash", "crash"]


@needs_crash
def test_reduce_writes_a_case_folder_with_a_script_that_shows_the_bug(folder):
    done = crux(folder, "reduce", "crash", "-o", "small", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["nodes_before"], document["nodes_after"], document["minimal"]) == (4, 1, True)
    assert {
        "bytes_before", "bytes_after", "checks", "sweep_checks", "cached", "seconds", "symptom", "signature",
        "moves", "ops", "passes",
    } <= set(document)  # fmt: skip
    assert crux(folder, "check", "small").returncode == 1
    script = subprocess.run([sys.executable, "small/repro.py"], cwd=folder, capture_output=True)
    assert script.returncode == 1


@needs_crash
def test_a_finished_reduction_is_left_as_it_is_and_another_cases_is_refused(folder):
    crux(folder, "reduce", "crash", "-o", "small")
    before = {path: path.read_bytes() for path in (folder / "small").iterdir()}
    assert crux(folder, "reduce", "crash", "-o", "small").returncode == 0
    assert {path: path.read_bytes() for path in (folder / "small").iterdir()} == before
    assert crux(folder, "reduce", "clip", "-o", "small").returncode == 2


@needs_crash
def test_a_script_that_a_kill_prevented_is_written_by_the_next_call_which_says_the_same(folder):
    first = crux(folder, "reduce", "crash", "-o", "small", "--json")
    script = folder / "small" / "repro.py"
    written = script.read_bytes()
    script.unlink()
    second = crux(folder, "reduce", "crash", "-o", "small", "--json")
    assert script.read_bytes() == written
    assert json.loads(second.stdout).keys() == json.loads(first.stdout).keys()


def test_a_reduction_of_what_does_not_fail_exits_with_1(folder):
    done = crux(folder, "reduce", "healthy", "-o", "small")
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not show" in done.stderr


def test_reduce_judges_by_a_command(folder):
    check = "grep -q Div {}"
    done = crux(folder, "reduce", "crash", "-o", "small", "--check", check, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ops"] == ["Div"]


@needs_crash
def test_reduce_all_reduces_what_the_database_holds(folder):
    with Judge(ORT) as judge, Store(folder / "crux.db") as store:
        for extra in (1, 2):
            case = division_crash(extra_nodes=extra)
            record_failure(store, case, judge.verdict(case))
    of_another_release = folder / "crux.db.reducing" / "F00001" / "journal.jsonl"
    of_another_release.parent.mkdir(parents=True)
    of_another_release.write_text('{"moves": [], "version": 1}\n')
    done = crux(folder, "reduce", "--all")
    assert done.returncode == 0, done.stderr
    sizes = [json.loads(line)["nodes_after"] for line in done.stdout.splitlines()]
    assert len(sizes) >= 2
    assert set(sizes) == {1}
    (cluster,) = json.loads(crux(folder, "triage", "--json").stdout)
    assert {"id", "title", "status", "signatures", "failures"} <= set(cluster)
    assert all({"id", "origins", "outcome", "signature"} <= set(each) for each in cluster["failures"])
    assert not (folder / "crux.db.reducing").exists()


def test_generate_writes_case_folders_and_counts(tmp_path):
    done = crux(tmp_path, "generate", "-o", "programs", "--count", "3", "--ops", "5", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {"models", "seconds", "op_types", "op_dtype", "op_shape", "op_edge"} == set(document)
    assert document["models"] == len(list((tmp_path / "programs").glob("*/model.onnx"))) == 3


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("ort@passes=FoldConstant", "target ort@passes=FoldConstant: runs no passes by name"),
        ("tvm@passes=NoSuchPass", "@passes=NoSuchPass: there is no pass NoSuchPass"),
    ],
)
def test_a_sequence_that_no_test_could_run_is_refused_before_the_first(tmp_path, target, why):
    done = crux(tmp_path, "fuzz", "--tests", "5", "--target", target)
    assert done.returncode == 2
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_fuzz_counts_its_tests_and_goes_on_with_new_seeds(tmp_path):
    done = crux(tmp_path, "fuzz", "--tests", "20", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {"tests", "valid", "failures", "clusters", "seconds", "tests_per_second"} <= set(document)
    assert document["tests"] == 20
    crux(tmp_path, "fuzz", "--tests", "5")
    with Store(tmp_path / "crux.db") as store:
        assert [row["next_seed"] for row in store.rows("SELECT next_seed FROM runs ORDER BY id")] == [20, 25]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_fuzzer_exits_with_130_and_keeps_its_tests(tmp_path, number):
    process = subprocess.Popen(
        command("fuzz", "--minutes", "5"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
        preexec_fn=hear_interrupts,
    )
    database = tmp_path / "crux.db"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not _tests_noted(database):
        time.sleep(0.1)
    process.send_signal(number)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 130, text
    with Store(database) as store:
        (row,) = store.rows("SELECT status, tests FROM runs")
    assert row["status"] == "interrupted"
    assert row["tests"] >= 1


def hear_interrupts() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _tests_noted(database: Path) -> bool:
    if not database.exists():
        return False
    with Store(database) as store:
        return bool(store.row("SELECT 1 FROM runs WHERE tests > 0"))


def test_doctor_tries_every_target(tmp_path):
    done = crux(tmp_path, "doctor", "--json")
    found = {each["part"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert found["target ort"]["works"]
    assert found["target reference"]["works"]


def test_doctor_tells_a_missing_core_package(tmp_path):
    setup = (
        "import importlib.metadata as m\nreal = m.version\n"
        "def version(name):\n    if name == 'onnxruntime': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\nm.version = version"
    )
    done = crux(tmp_path, "doctor", "--json", setup=setup)
    assert done.returncode == 1
    broken = [each["part"] for each in json.loads(done.stdout) if each["core"] and not each["works"]]
    assert broken == ["package onnxruntime"]


def test_show_prints_the_graph(folder):
    done = crux(folder, "show", "clip", "--json")
    document = json.loads(done.stdout)
    assert document["ops"] == ["Relu", "Clip"]
    assert "Clip(r, low)" in document["text"]


def test_show_prints_loops_with_their_passes(folder):
    known = Path(__file__).parents[2] / "corpus" / "regressions" / "tir-name-within-before-cse"
    document = json.loads(crux(folder, "show", str(known), "--json").stdout)
    assert document["settings"] == {"passes": "tirx.CommonSubexprElim"}
    assert "A[0] = T.Add(2, 2) * T.Add(2, 2)" in document["text"]
    shown = _show([document]).plain.splitlines()
    assert "size    2 statements, 310 bytes" in shown
    assert "passes  tirx.CommonSubexprElim" in shown


def test_the_database_is_checked(folder):
    with Store(folder / "crux.db") as store:
        store.add_case(healthy())
        blob = store.blobs.path(next(iter(store.blobs.digests())))
    assert crux(folder, "db", "check").returncode == 0
    blob.write_bytes(b"")
    assert crux(folder, "db", "check").returncode == 1
    assert crux(folder, "db", "check", "--db", "missing.db").returncode == 2


def test_a_reader_that_goes_away_does_not_change_the_exit_code(folder):
    done = subprocess.run(
        ["bash", "-c", '"$@" | true; exit ${PIPESTATUS[0]}', "bash", *command("check", "healthy", "healthy")],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_leaves_in_the_middle_ends_the_command_without_a_word(folder):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = subprocess.run(
            command("check", "--help"),
            cwd=folder,
            env=environment(folder),
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
