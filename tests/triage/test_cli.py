import json
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from corpus.target import Target
from oracles.judge import Judge
from oracles.ort_passes import DISABLED_BY
from reducer.api import finished
from reducer.course import Options
from reducer.pass_sets import PassSet
from tests.helpers.commands import command, crux, crux_apart, environment, hear_interrupts, waited_for
from tests.helpers.failing import ORT, clip_exception, division_crash, healthy
from tests.helpers.models import contents
from tests.helpers.sources import PACKAGES
from triage.bugs.failures import record_failure
from triage.cases.patterns import advice
from triage.cli import run
from triage.console.settings import KINDS, RUNNING, variable
from triage.console.status import Progress
from triage.reductions import folders as reducing
from triage.repro.source import NotWritten
from triage.store.database import Store
from triage.store.failures import list_failures


@pytest.fixture
def folder(tmp_path):
    division_crash(extra_nodes=3).save(tmp_path / "crash")
    clip_exception().save(tmp_path / "clip")
    healthy().save(tmp_path / "healthy")
    return tmp_path


needs_crash = pytest.mark.usefixtures("crash_judge")


def test_help_imports_no_framework_and_little_else(tmp_path):
    """What is imported is what `--help` costs; seconds are others' on a busy machine."""
    done = crux_apart(
        tmp_path,
        "--help",
        setup="import atexit\natexit.register(lambda: print(*sys.modules, file=sys.stderr))",
    )
    imported = set(done.stderr.split())
    heavy = {"numpy", "onnx", "onnxruntime", "torch", "tvm", "sqlite3", "sqlite_utils", "jinja2", "ml_dtypes"}
    assert imported & heavy == set()
    assert len(imported) < 400
    assert sum(name.split(".")[0] in PACKAGES for name in imported) < 60


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "check",
        "check missing.onnx",
        "check x --jobs 0",
        "check x --target nope",
        "fuzz --tests 5 --target ort@passes=FoldConstant",
        "fuzz --tests 5 --target tvm@passes=NoSuchPass",
        "conformance --only (",
        "wrap --catch none -- true",
    ],
)
def test_bad_usage_exits_with_2_and_one_line(tmp_path, line):
    done = crux(tmp_path, *line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert "missing.onnx" in done.stderr or "missing.onnx" not in line


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
    done = crux_apart(folder, "check", "healthy", setup=setup)
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
    assert crux_apart(folder, "reduce", "healthy", "-o", "secret", "--private", setup=setup).returncode == 3
    _, bundle = sorted((folder / "state" / "crux").iterdir())
    with zipfile.ZipFile(bundle) as found:
        assert found.namelist() == ["crux.log", "versions.json"]
        assert "secret" not in found.read("crux.log").decode()


@needs_crash
def test_several_cases_are_a_list_or_lines_and_a_bug_among_them_exits_with_1(folder):
    done = crux(folder, "check", "healthy", "crash", "--json")
    assert done.returncode == 1
    seen = [(each["outcome"], each["phase"], bool(each["symptom"])) for each in json.loads(done.stdout)]
    assert seen == [("pass", "compare", False), ("crash", "execute", True)]
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
    """A finished one is left as it is, but for a script that a kill prevented; another case's is refused."""
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

    before = contents(folder / "small")
    (folder / "small" / "repro.py").unlink()
    again = crux(folder, "reduce", "crash", "-o", "small", "--json")
    assert (again.returncode, json.loads(again.stdout).keys()) == (0, document.keys())
    assert contents(folder / "small") == before
    assert crux(folder, "reduce", "clip", "-o", "small").returncode == 2


def test_a_reduction_of_what_does_not_fail_exits_with_1(folder):
    done = crux(folder, "reduce", "healthy", "-o", "small")
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not show" in done.stderr


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
    assert sizes == [1]
    (cluster,) = json.loads(crux(folder, "triage", "--json").stdout)
    assert {"id", "title", "status", "signatures", "failures"} <= set(cluster)
    assert all({"id", "origins", "outcome", "signature"} <= set(each) for each in cluster["failures"])
    assert not (folder / "crux.db.reducing").exists()


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
    assert waited_for(lambda: _tests_noted(database))
    process.send_signal(number)
    _, text = process.communicate()
    assert process.returncode == 130, text
    with Store(database) as store:
        (row,) = store.rows("SELECT status, tests FROM runs")
    assert row["status"] == "interrupted"
    assert row["tests"] >= 1


def _tests_noted(database: Path) -> bool:
    if not database.exists():
        return False
    with Store(database) as store:
        return bool(store.row("SELECT 1 FROM runs WHERE tests > 0"))


def test_doctor_tries_every_target(tmp_path):
    done = crux(tmp_path, "doctor", "--json")
    works = {each["part"] for each in json.loads(done.stdout) if each["works"]}
    assert (done.returncode, works >= {"target ort", "target reference"}) == (0, True), done.stdout


def test_doctor_tells_a_missing_core_package(tmp_path):
    setup = (
        "import importlib.metadata as m\nreal = m.version\n"
        "def version(name):\n    if name == 'onnxruntime': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\nm.version = version"
    )
    done = crux_apart(tmp_path, "doctor", "--json", setup=setup)
    assert done.returncode == 1
    broken = [each["part"] for each in json.loads(done.stdout) if each["core"] and not each["works"]]
    assert broken == ["package onnxruntime"]


def test_show_prints_the_graph(folder):
    done = crux(folder, "show", "clip", "--json")
    document = json.loads(done.stdout)
    assert document["ops"] == ["Relu", "Clip"]
    assert "Clip(r, low)" in document["text"]


# The nearest file of settings, the environment, the command line; a file is data and runs nothing


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in whose folder `deep/er` one works."""
    for key in KINDS:
        monkeypatch.delenv(variable(key), raising=False)
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo" / "deep" / "er")
    return tmp_path / "repo"


def configured(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, tuple[object, str]]:
    assert run(["config", "--json", *words]) == 0
    return {each["name"]: (each["value"], each["from"]) for each in json.loads(capsys.readouterr().out)}


def test_each_setting_says_where_it_comes_from(project, capsys, monkeypatch):
    path = project / "pyproject.toml"
    path.write_text('[tool.crux]\ntarget = "reference"\ntimeout = 7\nmemory = 512\ndatabase = "found.db"\n')
    monkeypatch.setenv("CRUX_MEMORY", "1024")
    found = configured(capsys, "--seed", "4")
    assert found["target"] == ("reference", str(path))
    assert found["timeout"] == (7.0, str(path))
    assert found["database"] == (str(project / "found.db"), str(path))
    assert found["memory"] == (1024, "CRUX_MEMORY")
    assert found["seed"] == (4, "command line")
    assert found["tolerance"] == ("auto", "default")
    assert found.keys() == KINDS.keys()


def test_the_nearest_file_with_settings_counts_and_none_outside_the_repository(project, capsys):
    (project.parent / "crux.toml").write_text("seed = 1\n")
    assert configured(capsys)["seed"] == (None, "default")
    (project / "crux.toml").write_text("seed = 2\n")
    (project / "deep" / "pyproject.toml").write_text("[tool.other]\nseed = 3\n")
    assert configured(capsys)["seed"] == (2, str(project / "crux.toml"))
    (project / "deep" / "pyproject.toml").write_text("[tool.crux]\nseed = 4\n")
    assert configured(capsys)["seed"] == (4, str(project / "deep" / "pyproject.toml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((f"{key} = true", "runs code") for key in sorted(RUNNING)),
        ('target = "ort@python=/bin/sh"', "@python=/bin/sh may say what to run"),
        ('target = "ort@anything=../here"', "may say what to run"),
        ('database = "../outside.db"', "leaves the folder"),
        ('known = "/etc/known.toml"', "leaves the folder"),
        ('oracles = "golden=/x"', "is no list of names"),
        ('timeout = "long"', "'long' is no int or float"),
        ("jobs = true", "True is no int"),
        ("tiemout = 3", "no such setting"),
        ("nonsense", "cannot be read as settings"),
    ],
)
def test_what_a_file_may_not_say_is_one_line(project, capsys, text, said):
    (project / "crux.toml").write_text(text + "\n")
    assert run(["check", "missing.onnx"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert run(["check", "--help"]) == 0  # help is there all the same


def test_a_target_of_the_settings_stands_in_for_cases_that_say_none(project, capsys):
    (project / "crux.toml").write_text('target = "reference"\n')
    healthy().save(Path("own"))
    Path("bare.onnx").write_bytes(healthy().program)
    assert run(["check", "own", "bare.onnx"]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert [each["target"] for each in lines] == ["ort", "reference"]


# The passes that a failure takes, and what stands in a folder where a script cannot be written


def test_passes_prints_the_contract_of_the_documents(folder):
    done = crux(folder, "passes", "clip", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["minimal"] == ["FuseReluClip"]
    assert document["unique"] is True
    assert document["checks"] == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [(["healthy"], 1, "does not show"), (["clip", "--target", "reference"], 2, "passes")],
)
def test_what_has_no_passes_to_tell_of_is_one_line(folder, words, code, said):
    done = crux(folder, "passes", *words, "--json")
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr.splitlines()[-1]


def test_an_issue_says_what_to_disable(folder):
    assert crux(folder, "report", "clip", "-o", "out").returncode == 0
    text = (folder / "out" / "clip" / "issue.md").read_text()
    assert 'Disabling only `FuseReluClip` makes it go away: `disabled_optimizers=["FuseReluClip"]`' in text


ADVICE = {
    "no search": (None, ""),
    "one": (
        PassSet(("A",), "all", 2, cures=("A",)),
        'Disabling only `A` makes it go away: `disabled_optimizers=["A"]` of `InferenceSession`.',
    ),
    "one with another that others can stand in for": (
        PassSet(("A", "B"), "all", 2, cures=("B",)),
        'Disabling only `B` makes it go away: `disabled_optimizers=["B"]` of `InferenceSession`. '
        "It takes `A`, or what does the same, as well.",
    ),
    "none alone": (
        PassSet(("A", "B"), "all", 2),
        "It shows with only `A` and `B` enabled, but disabling no single pass makes it go away.",
    ),
    "nothing that can be disabled": (
        PassSet((), "all", 2, beyond_passes=True),
        "Disabling every pass that can be disabled by name does not make it go away.",
    ),
}


@pytest.mark.parametrize("name", ADVICE)
def test_advice_claims_no_more_than_was_seen(name):
    found, text = ADVICE[name]
    assert advice(found, DISABLED_BY) == text


# Reducing into a folder: what stands there when a script cannot be written


def test_a_reduction_whose_script_cannot_be_written_is_kept(tmp_path, monkeypatch, capsys):
    def refuse(*_: Any) -> None:
        raise NotWritten("cannot be written as a module (why)")

    monkeypatch.setattr(reducing, "source_of", refuse)
    options = Options(target=Target("ort"))
    document, _ = reducing.reduce_into(division_crash(), tmp_path / "out", options, Progress())
    assert document["nodes_after"] == 1
    assert finished(tmp_path / "out") is not None
    assert not (tmp_path / "out" / "repro.py").exists()
    assert "no repro.py: cannot be written as a module (why)" in capsys.readouterr().err
